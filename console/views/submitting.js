// Changes on their way: what became of them, and what to do while nobody knows.

/** Do it; what is wrong is said. */
export async function guarded(context, work) {
  try {
    await work();
  } catch (error) {
    if (error.name !== "Problem") console.error(error);
    const remedy = error.remedy ? ` ${error.remedy}` : "";
    context.say(`${error.message}${remedy}`, "bad");
  }
}

/**
 * Commit a proposal. While it is not known whether that was done, its id is kept, and somebody
 * may ask again under it.
 * @param {object} change
 * @param {object} change.proposal
 * @param {string} change.what  such as "the cancel of sequence 4"
 * @param {(committed: object) => void} change.done
 */
export async function submit(context, change) {
  const { proposal, what, done } = change;
  try {
    done(await context.api.commit(proposal));
  } catch (error) {
    if (error.code !== "unknown") throw error;
    context.say(
      `It is not known whether ${what} was made, for the CMS did not answer. Asking again is safe: ` +
        `it is made once at most, as entry ${proposal.entry_id}.`,
      "bad",
      { text: "Ask again", do: () => guarded(context, () => submit(context, change)) },
    );
  }
}
