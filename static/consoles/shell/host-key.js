// The machine shows another host key than the one that is known. Only the person can know whether that is right.
import { notice } from "shell/notice";
import { hostKeys, trust } from "shell/opening";

const MOMENT = 500; // milliseconds

/** Shows both keys, and opens a session once the new one, and no other, was accepted. */
export async function compare(message, page) {
  try {
    const { known, shown } = await bothKeys();
    notice(message, {
      more: "That is so after it was installed anew. If nobody did that, somebody may stand between it and the panel.",
      details: [["Known until now", known], ["Shown now", shown]],
      actions: [["Accept this key and open", () => accept(shown, page), "btn-danger"], ...page.elsewhere],
    });
  } catch (refusal) {
    page.refused(refusal);
  }
}

/** The panel may learn of the new key a moment later than the page learns that there is one. */
async function bothKeys(patience = 10) {
  const keys = await hostKeys();
  if (keys.shown || !patience) return keys;
  await new Promise((resolve) => setTimeout(resolve, MOMENT));
  return bothKeys(patience - 1);
}

async function accept(shown, page) {
  try {
    await trust(shown);
    page.open();
  } catch (refusal) {
    const { message } = refusal;
    notice(message, { actions: [["Compare again", () => compare(message, page)], ...page.elsewhere] });
  }
}
