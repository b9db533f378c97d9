import { ServiceError, storageError } from '../http-errors.ts';
import type { ToolMethods } from './tool-requests.ts';

/**
 * `POST /reset` (docs/service.md 13.2).
 *
 * @param reset undefined if the store must not be reset
 * @param describe returns the body of the response, after a reset
 */
export function createResetTool(
  reset: (() => Promise<void>) | undefined,
  describe: () => Promise<Record<string, unknown>>,
): ToolMethods {
  return {
    async POST() {
      if (reset === undefined) {
        throw new ServiceError(
          'forbidden',
          'This store cannot be reset. Only a directory of pets serve --ephemeral or --resettable can',
        );
      }
      await reset().catch((error) => {
        throw storageError(error);
      });
      return { status: 200, headers: {}, body: JSON.stringify(await describe()) };
    },
  };
}
