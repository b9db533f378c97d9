/** What became of each item: its result, or the outcome or the class of its error. */
export async function outcomes(added: Promise<number>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(added);
  return settled.map((each) => {
    if (each.status === 'fulfilled') return each.value;
    return each.reason.outcome ?? each.reason.constructor;
  });
}
