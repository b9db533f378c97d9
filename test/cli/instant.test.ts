import { expect, test } from 'vitest';
import { writeAll } from '../../src/cli/instant.ts';

const failure = (code: string) => Object.assign(new Error(code), { code });

test('what is taken bit by bit, with waits between, is written whole and once', () => {
  let written = Buffer.alloc(0);
  let calls = 0;
  writeAll((bytes) => {
    if (++calls % 2 === 0) throw failure('EAGAIN');
    written = Buffer.concat([written, bytes.subarray(0, 3)]);
    return Math.min(3, bytes.length);
  }, 'Fürst Pückler\n');
  expect(written.toString()).toBe('Fürst Pückler\n');
  expect(calls).toBeGreaterThan(8);
});

test('any other failure is the caller’s', () => {
  const fail = () => {
    throw failure('ENOSPC');
  };
  expect(() => writeAll(fail, 'text')).toThrow('ENOSPC');
});
