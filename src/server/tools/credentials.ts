import { timingSafeEqual } from 'node:crypto';
import { generateKey, hashKey } from '../../store/keys/keys.ts';

export type ToolCredentials = ReturnType<typeof createToolCredentials>;

/**
 * The credentials that may use the developer tools (docs/service.md 13): a token with 256 random bits that is new at each
 * start, and the API keys that `allowKey` adds. The token has the form of an API key, so that everything that redacts API
 * keys redacts it too.
 */
export function createToolCredentials() {
  const token = generateKey();
  const keys: string[] = [];
  const tokenHash = Buffer.from(hashKey(token));
  const keyHashes: Buffer[] = [];

  return {
    token,
    /** Lets an API key use the tools while it is valid. */
    allowKey(key: string): void {
      keys.push(key);
      keyHashes.push(Buffer.from(hashKey(key)));
    },
    /** The token and the keys, to redact them. */
    secrets: (): string[] => [token, ...keys],
    /** Returns which credential has this SHA-256 in hexadecimal, if any. Takes the same time in every case. */
    identify(sha256: string): 'token' | 'key' | undefined {
      const given = Buffer.from(sha256);
      const isToken = timingSafeEqual(given, tokenHash);
      const isKey = keyHashes.filter((hash) => timingSafeEqual(given, hash)).length > 0;
      if (isToken) return 'token';
      return isKey ? 'key' : undefined;
    },
  };
}
