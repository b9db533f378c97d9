import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cliErrorCodes } from '../../src/cli/errors/error-codes.ts';
import { CallError } from '../../src/cli/explain/call-error.ts';
import { explain } from '../../src/cli/explain/explain.ts';
import type { Connection } from '../../src/cli/profiles/resolve.ts';
import { ApiFailure, RateLimitError } from '../../src/client/errors.ts';
import { type ErrorCode, errorCodes } from '../../src/contract/error-codes.ts';

const readme = readFileSync(join(import.meta.dirname, '..', '..', 'README.md'), 'utf8');
const [, section] = /^#+ .*Troubleshooting.*\n([\s\S]*?)(?=^#+ |$(?![\s\S]))/m.exec(readme) ?? [];

/** The exit code of an error that a service has told. */
function exitCodeOf(code: ErrorCode): number {
  const body = { code, message: 'no', status: errorCodes[code] };
  const failure =
    body.status === 429 ? new RateLimitError(0, { error: body }) : new ApiFailure(body.status, body);
  const connection: Connection = {
    profile: 'prod',
    baseUrl: 'https://api.example.com/v1',
    key: 'k',
    keySource: 'PETS_API_KEY',
  };
  return explain(new CallError(failure, connection), 0).exitCode;
}

test('the table of troubleshooting has every error code, each with its exit code', () => {
  const rows = [...(section ?? '').matchAll(/^\| `(\w+)` \| (\d+) \|/gm)];
  const table = Object.fromEntries(rows.map(([, code, exit]) => [code, Number(exit)]));
  expect(table).toMatchObject(cliErrorCodes);
  for (const [code, exit] of Object.entries(table)) {
    if (code in cliErrorCodes) continue;
    expect(Object.keys(errorCodes), 'the code of no error').toContain(code);
    expect([code, exit]).toEqual([code, exitCodeOf(code as ErrorCode)]);
  }
});
