/** Returns a function that calls `task` only after its earlier calls have ended, whether or not they failed. */
export function oneAtATime<Args extends unknown[], Result>(
  task: (...args: Args) => Promise<Result>,
): (...args: Args) => Promise<Result> {
  let latest: Promise<unknown> = Promise.resolve();
  return (...args) => {
    const run = latest.then(() => task(...args));
    latest = run.catch(() => {});
    return run;
  };
}
