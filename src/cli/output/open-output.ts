import { existsSync } from 'node:fs';
import { dirname, sep } from 'node:path';
import { Writable } from 'node:stream';
import { InterruptedError } from '../../client/errors.ts';
import { errnoOf, isMissing } from '../../system/file-system.ts';
import { type OutputFile, openOutputFile, type Wait } from '../../system/output-file.ts';
import type { Context, OutputStream } from '../core/context.ts';
import { CliError, fileError } from '../core/errors.ts';

/** The file of `--output`, as a stream that replaces stdout. */
export type Output = Pick<OutputFile, 'isReplaced' | 'commit' | 'discard'> & {
  name: string;
  stream: OutputStream;
};

/**
 * Opens the file of `--output`; `-` is stdout. A new regular file gets the mode `mode` minus the umask.
 *
 * @throws CliError if the file cannot be written
 */
export async function openOutput(name: string, context: Context, mode = 0o666): Promise<Output> {
  const signals = createSignalWatch(context);
  const file = name === '-' ? 1 : await openFile(name, signals.pause, mode).finally(signals.end);
  if (typeof file === 'number') {
    const target = file === 1 ? context.stdout : context.stderr;
    const stream = sink((bytes, done) => target.write(bytes, done));
    return { name, stream, isReplaced: false, commit: async () => {}, discard() {} };
  }
  const write = async (bytes: Buffer) => {
    signals.check();
    await file.write(bytes);
    // Signals are handled only between turns of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
  };
  return {
    name,
    stream: sink((bytes, done) => write(bytes).then(() => done(), done)),
    isReplaced: file.isReplaced,
    commit: () => file.commit(),
    discard() {
      file.discard();
      signals.end();
    },
  };
}

async function openFile(name: string, wait: Wait, mode: number): Promise<OutputFile | 1 | 2> {
  if ((name.endsWith('/') || name.endsWith(sep)) && !existsSync(name))
    throw new CliError(`cannot write ${name}: the name of a file must not end with a slash`, {
      code: 'file_error',
    });
  try {
    return await openOutputFile(name, wait, mode);
  } catch (error) {
    throw error instanceof InterruptedError ? error : explain(name, error);
  }
}

/** Milliseconds between attempts to write to a device or pipe. */
const PAUSE_MS = 5;

/**
 * Handles signals from the first wait or write to `end`, so that an interrupted command removes its temporary file. The
 * handler stays between the waits: Node discards a signal whose handler is removed before the signal is delivered.
 */
function createSignalWatch({ sleep, onSignal }: Context) {
  const interrupt = new AbortController();
  let unsubscribe: (() => void) | undefined;
  const start = () => {
    unsubscribe ??= onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], () => interrupt.abort(new InterruptedError()));
  };
  return {
    /** @throws InterruptedError after a signal */
    check() {
      start();
      interrupt.signal.throwIfAborted();
    },
    /** Rejects with InterruptedError after a signal. */
    pause(): Promise<void> {
      start();
      return sleep(PAUSE_MS, interrupt.signal);
    },
    end() {
      unsubscribe?.();
      unsubscribe = undefined;
    },
  };
}

/** A stream that is not a terminal. Every write has a callback that gets its error, so `error` events are ignored. */
function sink(write: (bytes: Buffer, done: (error?: Error | null) => void) => void): Writable {
  return new Writable({ write: (bytes, _encoding, done) => write(bytes, done) }).on('error', () => {});
}

const REPLACED =
  'pets replaces the file as a whole, so it must be able to write the file and to create files in its directory';

function explain(name: string, error: unknown): CliError {
  const { path = dirname(name) } = error as NodeJS.ErrnoException;
  if (isMissing(error))
    return new CliError(`cannot write ${name}: the directory ${path} does not exist`, {
      code: 'file_error',
      cause: error,
    });
  const isRefused = ['EACCES', 'EPERM', 'EROFS'].includes(errnoOf(error) ?? '');
  return fileError('write', name, error, isRefused ? REPLACED : undefined);
}
