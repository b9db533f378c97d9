/**
 * Makes what waits until this round of the event loop has read all that has come. Whoever waits in one round goes on
 * together: answers that leave back to back wake their readers once, not one by one.
 */
export function createRounds(): () => Promise<void> {
  let end: Promise<void> | undefined;
  return () => {
    end ??= new Promise((resolve) => {
      setImmediate(() => {
        end = undefined;
        resolve();
      });
    });
    return end;
  };
}
