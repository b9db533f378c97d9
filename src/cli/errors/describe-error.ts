import { InterruptedError } from '../../client/errors.ts';
import { StoreError, StoreNotFoundError, StoreRequestError } from '../../store/errors.ts';
import { CliError } from '../core/errors.ts';
import { type CliErrorCode, type UserError, userError } from '../core/exit-codes.ts';
import { OutputError } from '../output/console.ts';
import { redactKey } from '../output/redact.ts';
import { CallError } from './call-error.ts';
import { describeCallError, type ErrorContext } from './describe-call-error.ts';

/** Converts any error into a message, a hint and an exit code. Nothing else in the program does this. */
export function describeError(error: unknown, context: ErrorContext): UserError {
  if (!(error instanceof CallError)) return describeOwn(error) ?? unexpected(error);
  const { cause, connection } = error;
  const { code, message, hint, ...rest } =
    describeOwn(cause) ?? describeCallError(cause, error, context) ?? unexpected(cause);
  // The service may have included the API key in its error, and the output of pets may end up in a log.
  const { key } = connection;
  return {
    ...rest,
    code: redactKey(code, key),
    message: redactKey(message, key),
    hint: error.hint ?? hint,
  };
}

function describeOwn(error: unknown): UserError | undefined {
  if (error instanceof CliError) {
    const { code, message, hint, mayHaveBeenAdded } = error;
    return userError(code, message, { hint, mayHaveBeenAdded });
  }
  if (error instanceof StoreError) return userError(codeOf(error), error.message, { hint: error.hint });
  if (error instanceof InterruptedError) return userError('interrupted', 'interrupted');
  if (error instanceof OutputError)
    return userError('output_error', `cannot write ${error.file ?? 'the output'}: ${error.message}`, {
      hint: `${isDiskFull(error) ? 'free some disk space, or ' : ''}write the output somewhere else`,
    });
  return undefined;
}

const isDiskFull = ({ code = '' }: OutputError): boolean => ['ENOSPC', 'EDQUOT'].includes(code);

function codeOf(error: StoreError): CliErrorCode {
  if (error instanceof StoreNotFoundError) return 'not_found';
  return error instanceof StoreRequestError ? 'usage' : 'store_error';
}

const unexpected = (error: unknown): UserError =>
  userError('internal_error', `unexpected error: ${error instanceof Error ? error.message : String(error)}`, {
    hint: 'this is a bug; please report it with the output of the same command with --debug',
  });
