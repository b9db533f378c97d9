import type Conf from 'conf';

/**
 * Loads conf, only where something is written. One of the libraries that it brings takes over every signal and raises
 * it again behind the program's own handlers: a server that was asked to stop would be asked twice, and so would not
 * finish what it has accepted. Its listeners are taken off again.
 */
export async function loadConf(): Promise<typeof Conf> {
  const before = new Set(signalListeners().map(([, listener]) => listener));
  const { default: loaded } = await import('conf');
  for (const [signal, listener] of signalListeners()) {
    if (!before.has(listener)) process.off(signal, listener);
  }
  return loaded;
}

function signalListeners(): (readonly [string, () => void])[] {
  return process
    .eventNames()
    .filter((name) => typeof name === 'string' && name.startsWith('SIG'))
    .flatMap((name) =>
      process
        .listeners(name as 'SIGINT')
        .map((listener) => [name as string, listener as () => void] as const),
    );
}
