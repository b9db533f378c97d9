/** This time is long enough on a busy machine, and shorter than the timeout of a test. */
const DEADLINE_MILLISECONDS = 60_000;

/** Waits for a promise. After 60 s, calls `describe` and rejects with the message that it returns. */
export async function withDeadline<T>(promise: Promise<T>, describe: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(describe())), DEADLINE_MILLISECONDS);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
