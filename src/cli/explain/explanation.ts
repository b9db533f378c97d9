import { type CliErrorCode, cliErrorCodes } from '../errors/error-codes.ts';
import type { ExitCode } from '../errors/exit-codes.ts';

/** An error as a person and a program are told it. */
export type Explanation = {
  exitCode: ExitCode;
  code: string;
  message: string;
  /** The status of the service's answer. */
  status?: number | undefined;
  /** When the service can be asked again, ISO 8601. */
  until?: string | undefined;
  /** Of a creation whose outcome is unknown: repeated with this key it adds no second animal, as the service honours it. */
  idempotencyKey?: string | undefined;
  /** The next step, mostly one command. */
  hint?: string | undefined;
};

/** An error with a code of our own. */
export const explanation = (
  code: CliErrorCode,
  message: string,
  rest: Pick<Explanation, 'status' | 'until' | 'idempotencyKey' | 'hint'> = {},
): Explanation => ({ exitCode: cliErrorCodes[code], code, message, ...rest });
