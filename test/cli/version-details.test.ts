import { expect, test } from 'vitest';
import { freshMachine } from '../helpers/pets.ts';

const DETAILS = { version: '1.2.3', commit: null, node: '26.1.0' } as const;

const context = { versionDetails: () => DETAILS };

test.each<[string, number | undefined, stdout: string]>([
  ['--version --json', undefined, `${JSON.stringify(DETAILS)}\n`],
  ['--json -V', undefined, `${JSON.stringify(DETAILS)}\n`],
  ['--version --json', 80, `${JSON.stringify(DETAILS, null, 2)}\n`],
  ['--version', undefined, '1.2.3\n'],
])('pets %s on a terminal of %s columns', async (line, columns, stdout) => {
  const options = columns === undefined ? context : { ...context, columns };
  const ran = await (await freshMachine()).pets(line.split(' '), options);
  expect(ran).toEqual({ code: 0, stdout, stderr: '' });
});
