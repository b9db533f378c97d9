import { DatabaseError } from 'pg';
import { expect, test } from 'vitest';
import { StoreUnwritableError } from '../../../src/store/errors.ts';
import { callFailure, connectFailure, isRolledBack } from '../../../src/store/postgres/failures.ts';

const PLACE = 'postgres://shop@db.example/pets';

const reported = (code: string, message = 'reported by the server') =>
  Object.assign(new DatabaseError(message, message.length, 'error'), { code });

const systemError = (code: string, message = code) => Object.assign(new Error(message), { code });

test.each([
  ['a connection that was lost', systemError('ECONNRESET'), false],
  ['an ended connection', reported('57P01'), false],
  ['a broken protocol', reported('08P01'), false],
  ['an unknown completion', reported('40003'), false],
  ['a standby server or another store', reported('PETS1'), true],
  ['a full disk', reported('53100'), true],
  ['a value that is not unique', reported('23505'), true],
])('after %s, the statement is rolled back: %s', (_name, error, expected) => {
  expect(isRolledBack(error)).toBe(expected);
});

test('a full disk is an error of its own if nothing was stored, and a missing privilege has a code', () => {
  expect(callFailure(reported('42501'), PLACE, 'not_done').code).toBe('privilege');
  expect(callFailure(reported('53100'), PLACE, 'not_done')).toBeInstanceOf(StoreUnwritableError);
  expect(callFailure(reported('53100'), PLACE, 'unknown')).toMatchObject({ outcome: 'unknown' });
});

test.each<[error: Error, hint: RegExp, words?: string]>([
  [reported('28P01', 'password authentication failed for user "shop"'), /password/],
  [reported('08P01', 'unsupported startup parameter'), /pgbouncer, add prepare=off/],
  [reported('53300'), /max_connections.*ALTER ROLE/],
  [systemError('ENOTFOUND'), /host name/, 'host not found (ENOTFOUND)'],
  [systemError('ERR_TLS_CERT_ALTNAME_INVALID'), /host name in the certificate.*sslmode/],
  [systemError('UNABLE_TO_GET_ISSUER_CERT_LOCALLY'), /certificate of the server/],
  [systemError('ECONNREFUSED'), /PostgreSQL has started there/, 'connection refused'],
])('the message of %s names the database, and the hint is a next step', (error, hint, words) => {
  const { message, hint: shown } = connectFailure(error, PLACE);
  expect(message).toBe(`cannot connect to ${PLACE}: ${words ?? error.message}`);
  expect(shown).toMatch(hint);
});

test('the message contains the different errors of all addresses of a host', () => {
  const both = new AggregateError(
    ['ECONNREFUSED', 'ENETUNREACH', 'ECONNREFUSED'].map((code) => systemError(code)),
  );
  const { message } = connectFailure(both, PLACE);
  expect(message).toContain(': connection refused, network is unreachable');
});
