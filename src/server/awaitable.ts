/** What is there at once, or is promised. */
export type Awaitable<Value> = Value | Promise<Value>;

/**
 * Goes on with a value: at once where it is there, later where it is promised. An `await` waits in both cases, and a
 * request that awaits eight times takes longer for that than for all that is done for it.
 */
export function next<Value, Result>(
  value: Awaitable<Value>,
  goOn: (value: Value) => Awaitable<Result>,
): Awaitable<Result> {
  return value instanceof Promise ? value.then(goOn) : goOn(value);
}

/** What `work` comes to; where it throws, or rejects, what `mend` makes of the error. */
export function attempt<Value>(
  work: () => Awaitable<Value>,
  mend: (error: unknown) => Awaitable<Value>,
): Awaitable<Value> {
  try {
    const value = work();
    return value instanceof Promise ? value.catch(mend) : value;
  } catch (error) {
    return mend(error);
  }
}
