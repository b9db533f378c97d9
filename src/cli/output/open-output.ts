import { dirname } from 'node:path';
import { Writable } from 'node:stream';
import { InterruptedError } from '../../client/errors.ts';
import { errnoOf, isMissing } from '../../system/file-system.ts';
import { type OutputFile, openOutputFile } from '../../system/output-file.ts';
import type { Context, OutputStream } from '../context.ts';
import { CliError, fileError } from '../errors/errors.ts';

/** The file of `--output`, as a stream that replaces stdout. */
export type Output = {
  name: string;
  stream: OutputStream;
  /** Whether `commit` replaces or creates a regular file. */
  isReplaced: boolean;
  /** Ends the output: a regular file then has all the data. */
  commit(): Promise<void>;
  /** Gives up: a regular file keeps its old contents. Does nothing after `commit`. */
  discard(): void;
};

/** Opens the file of `--output`; `-` is stdout. @throws CliError if it cannot be written */
export async function openOutput(name: string, context: Context): Promise<Output> {
  const file = name === '-' ? 1 : await openFile(name, context);
  if (typeof file === 'number') {
    const target = file === 1 ? context.stdout : context.stderr;
    const stream = sink((bytes, done) => target.write(bytes, done));
    return { name, stream, isReplaced: false, commit: async () => {}, discard() {} };
  }
  const stream = sink((bytes, done) => file.write(bytes).then(() => done(), done));
  return { ...file, name, stream };
}

async function openFile(name: string, context: Context): Promise<OutputFile | 1 | 2> {
  try {
    return await openOutputFile(name, () => pause(context));
  } catch (error) {
    throw error instanceof InterruptedError ? error : explain(name, error);
  }
}

/** Milliseconds between attempts to write to a device or pipe. */
const PAUSE_MS = 5;

/** Signals are handled only during the pause, so that the command's own handlers stay in charge at other times. */
async function pause({ sleep, onSignal }: Context): Promise<void> {
  const interrupt = new AbortController();
  const unsubscribe = onSignal(['SIGINT', 'SIGTERM', 'SIGHUP'], () =>
    interrupt.abort(new InterruptedError()),
  );
  await sleep(PAUSE_MS, interrupt.signal).finally(unsubscribe);
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
