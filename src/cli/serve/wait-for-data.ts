import type { Backend, StoreLocation } from '../../store/backend.ts';
import { StoreUnavailableError } from '../../store/errors.ts';
import type { Console } from '../output/console.ts';
import type { CommandContext } from '../program/command.ts';

const RETRY_MS = 500;

/**
 * Returns a function that opens the store for a server. While the database of the store is not available, that function
 * tries again until `seconds` are over.
 *
 * @param signal ends the wait: the function then rejects with its reason
 */
export function openWhenAvailable(
  location: Pick<StoreLocation, 'open'>,
  seconds: number,
  {
    clock,
    sleep,
    console,
  }: Pick<CommandContext, 'clock' | 'sleep'> & { console: Pick<Console, 'noticeOnce'> },
  signal: AbortSignal,
): StoreLocation['open'] {
  return async (options) => {
    const end = clock.elapsed() + seconds * 1_000;
    for (;;) {
      try {
        return await openUnlessAborted(location.open(options), signal);
      } catch (error) {
        const left = end - clock.elapsed();
        if (!(error instanceof StoreUnavailableError) || left <= 0) throw error;
        console.noticeOnce(`waiting at most ${seconds} s for the store: ${error.message}`);
        await sleep(Math.min(RETRY_MS, left), signal);
      }
    }
  };
}

/** Rejects as soon as the signal is aborted. A backend that opens later is closed again. */
function openUnlessAborted(opening: Promise<Backend>, signal: AbortSignal): Promise<Backend> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      reject(signal.reason);
      opening.then((backend) => backend.close()).catch(() => {});
    };
    signal.addEventListener('abort', onAbort);
    opening.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
