import type Conf from 'conf';

/**
 * Loads conf, only where something is written. One of the libraries that it brings takes over every signal as it is
 * loaded, and raises each again behind the program's own handlers: a server that was asked to stop would be asked
 * twice, and one whose disk is full would be killed. It is kept from the signals; taking its listeners off afterwards
 * would not do, since that also resets the signals that Node ignores.
 */
export async function loadConf(): Promise<typeof Conf> {
  const { once } = process;
  process.once = ((event: string, listener: () => void) =>
    event.startsWith('SIG') ? process : once.call(process, event, listener)) as typeof once;
  try {
    return (await import('conf')).default;
  } finally {
    process.once = once;
  }
}
