/** The user or a signal interrupted the work, for example with Ctrl-C. */
export class InterruptedError extends Error {
  override name = 'InterruptedError';
  override message = 'interrupted';
}
