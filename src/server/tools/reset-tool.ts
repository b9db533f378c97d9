import { ServiceError } from '../errors.ts';
import type { ToolMethods } from '../routes.ts';

/** The number of animals in the seed, and the cursor for the requests after the reset. */
export type ResetResult = { animals: number; cursor: string };

/** `POST /reset` (docs/service.md 13.2). `reset` is undefined if the store must not be reset. */
export function createResetTool(reset: (() => Promise<ResetResult>) | undefined): ToolMethods {
  return {
    async POST() {
      if (reset === undefined) {
        throw new ServiceError(
          'forbidden',
          'This store cannot be reset. Start the server with --resettable or --ephemeral',
        );
      }
      const result = await reset();
      return { status: 200, body: JSON.stringify(result) };
    },
  };
}
