// Passkeys: a form marked with data-passkey asks the panel for a challenge, the browser for the answer, and sends it along.
"use strict";

const able = (form) => window.PublicKeyCredential?.parseRequestOptionsFromJSON && location.hostname === form.dataset.host;
for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.hidden = !able(form);
  for (const beside of document.querySelectorAll("[data-passkey-able]")) beside.hidden = form.hidden;
  for (const instead of document.querySelectorAll("[data-passkey-unable]")) instead.hidden = !form.hidden;
}

async function answer(form) {
  const asked = await fetch(form.dataset.options, { method: "POST", body: new FormData(form) });
  if (!asked.ok) throw new Error(form.dataset.unreachable);
  const options = await asked.json();
  if (options.problem) throw new Error(options.problem);
  const making = form.dataset.passkey === "create";
  const credential = making
    ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
    : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
  return JSON.stringify(credential.toJSON());
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-passkey]");
  if (!form || form.elements.credential.value) return;
  event.preventDefault();
  const button = form.querySelector("[type=submit]");
  const problem = form.querySelector("[data-problem]");
  button.disabled = true;
  problem.hidden = true;
  try {
    form.elements.credential.value = await answer(form);
    form.submit();
  } catch (error) {
    problem.textContent = { InvalidStateError: form.dataset.exists, NotAllowedError: form.dataset.cancelled }[error.name] || error.message;
    problem.hidden = false;
    button.disabled = false;
  }
});
