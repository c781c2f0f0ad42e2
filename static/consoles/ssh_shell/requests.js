// The requests of a shell's page: a new session, and the host key.
import { request } from "consoles/requests";

const page = document.querySelector("#shell").dataset;

/** {socket, session_id}. Takes seconds, because a key is installed in the guest. */
export const createSession = () => request("POST", page.newSession);

/** The fingerprints {known, shown}. */
export const fetchHostKeys = () => request("GET", page.hostKey);

/** Accepts the key with this fingerprint, and no other. */
export const acceptHostKey = (shown) => request("POST", page.hostKey, new URLSearchParams({ shown }));
