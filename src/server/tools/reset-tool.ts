import { ServiceError, storageError } from '../http-errors.ts';
import type { ToolMethods } from './tool-requests.ts';

/**
 * `POST /reset` (docs/service.md 13.2).
 *
 * @param reset returns the number of animals in the seed; undefined if the store must not be reset
 * @param cursor returns the cursor for later requests
 */
export function createResetTool(
  reset: (() => Promise<number>) | undefined,
  cursor: () => string,
): ToolMethods {
  return {
    async POST() {
      if (reset === undefined) {
        throw new ServiceError(
          'forbidden',
          'This store cannot be reset. Start the server with --resettable or --ephemeral',
        );
      }
      const animals = await reset().catch((error) => {
        throw storageError(error);
      });
      return { status: 200, headers: {}, body: JSON.stringify({ animals, cursor: cursor() }) };
    },
  };
}
