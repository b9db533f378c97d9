import { createHash } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import { StoreInUseError } from './errors.ts';
import { errnoOf } from './files.ts';
import { ask, type Lock, type Sleep, serveClaim } from './lock-claim.ts';

/** On Windows a pipe's name is gone with its process, and only one can have it: the pipe is the lock. */
export async function acquirePipe(directory: string, sleep: Sleep): Promise<Lock> {
  const real = (await realpath(directory)).toLowerCase();
  const name = createHash('sha256').update(real).digest('hex').slice(0, 32);
  const socket = `\\\\.\\pipe\\pets-${name}`;
  try {
    const claim = await serveClaim({ directory, name, socket, remove: async () => {} });
    claim.hold();
    return claim;
  } catch (error) {
    if (!(error instanceof Error) || errnoOf(error.cause) !== 'EADDRINUSE') throw error;
    const answer = await ask(socket, sleep);
    throw new StoreInUseError(directory, typeof answer === 'object' ? answer : {});
  }
}
