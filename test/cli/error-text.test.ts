import { expect, test } from 'vitest';
import { runAgainst } from '../helpers/in-terminal.ts';
import { reply } from '../helpers/scripted-server.ts';

const refused = (message: string, argv: string[], columns?: number) =>
  runAgainst(
    (_request, response) => reply(response, 400, { code: 'bad', message, status: 400 }),
    ['list', '--color', 'never', ...argv],
    columns === undefined ? {} : { columns },
  );

test('line breaks in a message of the service cannot fake an error of the program, also with --debug', async () => {
  const { stderr } = await refused('x\r\nerror: fake\n  → type: rm -rf ~', ['--debug']);
  expect(stderr.match(/^error: /gm)).toHaveLength(1);
  expect(stderr).not.toMatch(/^ *→ type/m);
  expect(stderr).toMatch(/^Error: x\\r\\nerror: fake\\n {2}→ type: rm -rf ~$/m);
});

test('a very long message is cut for a person and complete with --json', async () => {
  const message = 'very long '.repeat(100_000);
  const { stderr } = await refused(message, [], 80);
  expect(stderr.length).toBeLessThan(3_000);
  expect(stderr).toContain('…');
  const json = await refused(message, ['--json']);
  expect(JSON.parse(json.stderr).error.message).toContain(message);
});
