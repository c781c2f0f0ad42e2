// Passkeys: a form marked with data-passkey fetches a challenge, gets a credential from the browser, and is sent with it.
"use strict";

const isSupported = (form) => window.PublicKeyCredential?.parseRequestOptionsFromJSON && location.hostname === form.dataset.host;
for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.hidden = !isSupported(form);
  for (const element of document.querySelectorAll("[data-passkey-supported]")) element.hidden = form.hidden;
  for (const element of document.querySelectorAll("[data-passkey-unsupported]")) element.hidden = !form.hidden;
}

async function requestCredential(form) {
  const response = await fetch(form.dataset.options, { method: "POST", body: new FormData(form) });
  if (!response.ok) throw new Error(form.dataset.unreachable);
  const options = await response.json();
  if (options.problem) throw new Error(options.problem);
  const isRegistration = form.dataset.passkey === "create";
  const credential = isRegistration
    ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
    : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
  return JSON.stringify(credential.toJSON());
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-passkey]");
  if (!form || form.elements.credential.value) return;
  event.preventDefault();
  const button = form.querySelector("[type=submit]");
  const errorText = form.querySelector("[data-error]");
  button.disabled = true;
  errorText.hidden = true;
  try {
    form.elements.credential.value = await requestCredential(form);
    form.submit();
  } catch (error) {
    errorText.textContent = { InvalidStateError: form.dataset.exists, NotAllowedError: form.dataset.cancelled }[error.name] || error.message;
    errorText.hidden = false;
    button.disabled = false;
  }
});
