import { expect, test } from 'vitest';
import { writeAllSync } from '../../src/cli/fast-path.ts';

const failure = (code: string) => Object.assign(new Error(code), { code });

test('short writes and EAGAIN are repeated until the text is complete', () => {
  let written = Buffer.alloc(0);
  let calls = 0;
  writeAllSync((bytes) => {
    if (++calls % 2 === 0) throw failure('EAGAIN');
    written = Buffer.concat([written, bytes.subarray(0, 3)]);
    return Math.min(3, bytes.length);
  }, 'Fürst Pückler\n');
  expect(written.toString()).toBe('Fürst Pückler\n');
  expect(calls).toBeGreaterThan(8);
});

test('other errors are thrown', () => {
  const fail = () => {
    throw failure('ENOSPC');
  };
  expect(() => writeAllSync(fail, 'text')).toThrow('ENOSPC');
});
