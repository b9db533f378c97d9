import * as z from 'zod/mini';
import { generateKey, hashKey } from '../../store/keys/keys.ts';
import { unauthorized } from '../errors.ts';
import { readBodyAs } from '../request/input.ts';
import type { Handler } from '../response.ts';

const Session = z.object({ code: z.string({ error: 'must be a string' }) }, 'must be an object with a code');

export type Credentials = ReturnType<typeof createCredentials>;

/**
 * The credentials of developers (docs/testing.md): a token, which is new at each start unless the user has chosen one, and
 * the session of the page, which a code opens once. Those that are not chosen have 256 random bits and the form of an API key,
 * so that everything that redacts API keys redacts them too.
 *
 * @param onNewCode called when a code was used and there is a new one
 */
export function createCredentials(token = generateKey(), onNewCode: () => void = () => {}) {
  const session = generateKey();
  const developers = new Set([token, session].map(hashKey));
  const usedCodes = new Set<string>();
  let code = generateKey();

  return {
    token,
    /** The code that opens the next session. */
    code: () => code,
    /** Whether a SHA-256 in hexadecimal is that of the token or of the session. Like API keys, they are compared by it. */
    isDeveloper: (sha256: string): boolean => developers.has(sha256),
    /** `POST /session` exchanges a code for a session, and makes a new code. @throws ServiceError 400, 401, 413 or 415 */
    openSession: (async (request) => {
      const sent = await readBodyAs(Session, request);
      if (usedCodes.has(sent.code))
        throw unauthorized('This address was already used', 'Open the one that pets serve has printed since');
      if (hashKey(sent.code) !== hashKey(code))
        throw unauthorized(
          'This address is wrong, or from an earlier start',
          'Open the one that pets serve has printed last',
        );
      usedCodes.add(code);
      code = generateKey();
      onNewCode();
      return { status: 200, body: JSON.stringify({ token: session }) };
    }) satisfies Handler,
  };
}
