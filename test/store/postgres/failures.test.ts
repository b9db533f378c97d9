import { DatabaseError } from 'pg';
import { expect, test } from 'vitest';
import type { StoreError } from '../../../src/store/errors.ts';
import {
  type CallPhase,
  callFailure,
  type FailureKind,
  isConnectionOutdated,
} from '../../../src/store/postgres/failures.ts';

const PLACE = 'postgres://shop@db.example/pets';

const reported = (code: string, message = 'reported by the server') =>
  Object.assign(new DatabaseError(message, message.length, 'error'), { code });

const systemError = (code: string) => Object.assign(new Error(`connect ${code} 127.0.0.1:5432`), { code });

const kinds: [name: string, error: unknown, phase: CallPhase, kind: FailureKind][] = [
  ['a closed port', systemError('ECONNREFUSED'), 'connecting', 'not_done'],
  ['a connection that ends early', new Error('Connection terminated'), 'connecting', 'not_done'],
  ['a connection that was lost after the call was sent', systemError('ECONNRESET'), 'sent', 'unknown'],
  ['an ended connection', reported('57P01'), 'sent', 'unknown'],
  ['a broken protocol', reported('08P01'), 'sent', 'unknown'],
  ['an unknown completion', reported('40003'), 'sent', 'unknown'],
  ['a standby server or another store', reported('PETS1'), 'sent', 'not_done'],
  ['a full disk', reported('53100'), 'sent', 'store_full'],
  ['a value that is not unique', reported('23505'), 'sent', 'not_done'],
];

test.each(kinds)('%s is classified', (_name, error, phase, kind) => {
  const meaning = (each: StoreError) => [each.constructor, 'outcome' in each && each.outcome];
  expect(meaning(callFailure(error, phase, PLACE))).toEqual(meaning(callFailure(error, phase, PLACE, kind)));
});

test.each<[error: Error, hint: RegExp]>([
  [reported('28P01', 'password authentication failed for user "shop"'), /password/],
  [reported('3D000'), /create the database/],
  [reported('53300'), /max_connections.*ALTER ROLE/],
  [systemError('ENOTFOUND'), /host name/],
  [systemError('ERR_TLS_CERT_ALTNAME_INVALID'), /host name that is in the certificate.*sslmode/],
  [systemError('CERT_HAS_EXPIRED'), /certificate of the server.*sslmode and sslrootcert/],
  [systemError('UNABLE_TO_GET_ISSUER_CERT_LOCALLY'), /certificate of the server/],
  [systemError('ECONNREFUSED'), /is running/],
])('the message of %s names the database, and the hint is a next step', (error, hint) => {
  const { message, hint: shown } = callFailure(error, 'connecting', PLACE);
  expect(message).toBe(`cannot connect to ${PLACE}: ${error.message}`);
  expect(shown).toMatch(hint);
});

test('the hint of a refused call is that of the function', () => {
  const error = Object.assign(reported('PETS1'), { hint: 'restore that store' });
  expect(callFailure(error, 'sent', PLACE).hint).toBe('restore that store');
});

test('the message contains the errors of all addresses of a host', () => {
  const both = new AggregateError([systemError('ECONNREFUSED'), systemError('ENETUNREACH')]);
  const { message } = callFailure(both, 'connecting', PLACE);
  expect(message).toContain('connect ECONNREFUSED 127.0.0.1:5432, connect ENETUNREACH');
});

test.each([
  ['25006', true],
  ['26000', true],
  ['PETS1', true],
  ['57014', false],
  ['23505', false],
])('whether the connection is replaced after %s', (code, isOutdated) => {
  expect(isConnectionOutdated(reported(code))).toBe(isOutdated);
});
