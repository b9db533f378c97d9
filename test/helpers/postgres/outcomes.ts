/** The result of each promise. For a rejected promise, the `outcome` of its error, or else the class of the error. */
export async function outcomes(added: Promise<number>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(added);
  return settled.map((each) => {
    if (each.status === 'fulfilled') return each.value;
    return each.reason.outcome ?? each.reason.constructor;
  });
}
