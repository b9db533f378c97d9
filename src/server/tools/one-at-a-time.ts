/** Returns a function that runs a task like `task`, but only when its earlier runs have ended, whether or not they failed. */
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
