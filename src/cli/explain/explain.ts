import { InterruptedError } from '../../client/errors.ts';
import { StoreError, StoreNotFoundError, StoreRequestError } from '../../store/errors.ts';
import { CliError } from '../errors/cli-error.ts';
import type { CliErrorCode } from '../errors/error-codes.ts';
import { OutputError } from '../output/console.ts';
import { withoutKey } from '../profiles/profile.ts';
import { CallError } from './call-error.ts';
import { explainCall } from './explain-call.ts';
import { type Explanation, explanation } from './explanation.ts';

/**
 * Turns every error there is into a message, a next step and an exit code; the only place that does. `now` is in
 * milliseconds since the epoch.
 */
export function explain(error: unknown, now: number): Explanation {
  if (!(error instanceof CallError)) return explainOwn(error) ?? unexpected(error);
  const { cause, connection } = error;
  const { code, message, hint, ...rest } =
    explainOwn(cause) ?? explainCall(cause, error, now) ?? unexpected(cause);
  // A service may send the key back inside its error; whoever logs what we say must not keep it.
  const { key } = connection;
  return {
    ...rest,
    code: withoutKey(code, key),
    message: withoutKey(message, key),
    hint: error.hint ?? hint,
  };
}

function explainOwn(error: unknown): Explanation | undefined {
  if (error instanceof CliError) return explanation(error.code, error.message, { hint: error.hint });
  if (error instanceof StoreError) return explanation(codeOf(error), error.message, { hint: error.hint });
  if (error instanceof InterruptedError) return explanation('interrupted', 'interrupted');
  if (error instanceof OutputError)
    return explanation('output_error', `cannot write the output: ${error.message}`, {
      hint: 'make room there, or write it elsewhere',
    });
  return undefined;
}

function codeOf(error: StoreError): CliErrorCode {
  if (error instanceof StoreNotFoundError) return 'not_found';
  return error instanceof StoreRequestError ? 'usage' : 'store_error';
}

const unexpected = (error: unknown): Explanation =>
  explanation('internal_error', `unexpected: ${error instanceof Error ? error.message : String(error)}`, {
    hint: 'this is a bug: run it again with --debug and report what it prints',
  });
