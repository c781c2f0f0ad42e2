// The guest presents another host key than the known one. Only the person can judge whether that is expected.
import { texts } from "consoles/texts";
import { showNotice } from "ssh_shell/notice";
import { acceptHostKey, fetchHostKeys } from "ssh_shell/requests";

const RETRY_MILLISECONDS = 500;
const MAX_RETRIES = 10;

/** Shows both keys, and opens a session once the new one, and no other, was accepted. */
export async function compareHostKeys(message, page) {
  try {
    const { known, shown } = await fetchBothKeys();
    showNotice(message, {
      advice: texts.host_key_advice,
      details: [[texts.known_host_key, known], [texts.new_host_key, shown]],
      actions: [[texts.accept_host_key, () => accept(shown, page), "btn-danger"], ...page.backLink],
    });
  } catch (error) {
    page.onRequestError(error);
  }
}

/** The panel may record the new key a moment after the page learns that there is one. */
async function fetchBothKeys(retries = MAX_RETRIES) {
  const keys = await fetchHostKeys();
  if (keys.shown || !retries) return keys;
  await new Promise((resolve) => setTimeout(resolve, RETRY_MILLISECONDS));
  return fetchBothKeys(retries - 1);
}

async function accept(shown, page) {
  try {
    await acceptHostKey(shown);
    page.open();
  } catch ({ message }) {
    showNotice(message, { actions: [[texts.compare_again, () => compareHostKeys(message, page)], ...page.backLink] });
  }
}
