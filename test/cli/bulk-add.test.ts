import { expect, test } from 'vitest';
import { HONOURED, service, shop } from '../helpers/bulk-shop.ts';
import { reply } from '../helpers/scripted-server.ts';
import { KEY, start } from '../helpers/service.ts';

const statuses = (stdout: string) =>
  stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t').slice(0, 4).join(' '));
const error = (stderr: string) => JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '').error;

test('adds each row, in the order of the file, and tells what became of each', async () => {
  const { url, names } = await service();
  const { add } = await shop(url);
  const { code, stdout, stderr } = await add();
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: '2\tadded\t1\tRex\t\n3\tadded\t2\tBella\t\n4\tadded\t3\tLola\t\n',
  });
  expect(stderr).toBe('note: 3 of 3 rows are added\n');
  expect(names()).toEqual(['Rex', 'Bella', 'Lola']);
});

test('a file that was added is not added again, but its results are printed again; --restart adds it', async () => {
  const { url, names } = await service();
  const { add } = await shop(url);
  const first = await add(['--json']);
  const second = await add(['--json']);
  expect(JSON.parse(first.stdout)).toHaveLength(3);
  expect(second).toMatchObject({ code: 0, stdout: first.stdout });
  expect(second.stderr).toContain('nothing was sent now: all 3 rows were added on 2026-11-20 12:00 UTC');
  expect(names()).toHaveLength(3);
  expect(await add(['--restart'])).toMatchObject({ code: 0 });
  expect(names()).toHaveLength(6);
});

test('every fault is told by its line, and nothing is sent', async () => {
  const { url, requests } = await service();
  const { add } = await shop(url, 'category,name,status\n1,Rex,\nx,Bella,\n2,Lola,gone\n3\n');
  const { code, stdout, stderr } = await add();
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(
    /line 3: category "x" must be .*\n.*line 4: status "gone" must be .*\n.*line 5: .*\nerror: .*3 faults/,
  );
  const json = await add(['--json']);
  const lines = json.stderr
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.map(({ fault }) => fault?.line)).toEqual([3, 4, 5, undefined]);
  expect(error(json.stderr)).toMatchObject({ code: 'usage', exitCode: 2 });
  expect(requests).toEqual([]);
});

test('a dry run sends nothing, remembers nothing, and shows what would be sent', async () => {
  const { url, requests } = await service();
  const { add } = await shop(url, 'id,name,category,price\n9,Rex,9007199254740993,12\n');
  const { code, stdout, stderr } = await add(['--dry-run', '--json']);
  expect({ code, stdout }).toEqual({ code: 0, stdout: '[{"name":"Rex","categoryId":9007199254740993}]\n' });
  expect(stderr).toContain('ids are not sent: every row becomes a new animal');
  expect(stderr).toContain('not sent, the service has no such field: price; without a column status');
  expect(requests).toEqual([]);
  expect((await add()).stdout).toBe('2\tadded\t1\tRex\t\n');
});

test('a row that the service refuses fails alone, and is the only one that the next run tries, with a new key', async () => {
  const { url, names, creations } = await service((name, response, count) => {
    if (name !== 'Bella' || count > 1) return false;
    reply(response, 400, { code: 'invalid_request', message: `no Bella with ${KEY}`, status: 400 }, HONOURED);
    return true;
  });
  const { add } = await shop(url);
  const first = await add(['--json']);
  expect(first.code).toBe(8);
  expect(JSON.parse(first.stdout)[1]).toMatchObject({
    line: 3,
    result: 'failed',
    error: { code: 'invalid_request', status: 400 },
  });
  expect(first.stdout + first.stderr).not.toContain(KEY);
  expect(names()).toEqual(['Rex', 'Bella', 'Lola']);
  expect(await add()).toMatchObject({ code: 0 });
  expect(names()).toEqual(['Rex', 'Bella', 'Lola', 'Bella']);
  expect(creations()[3]?.key).not.toBe(creations()[1]?.key);
});

test('a lost answer is asked for again with the same key, where the service honours it', async () => {
  const { url, names, added, creations } = await service((name, response, count) => {
    if (name === 'Bella' && count === 1) response.destroy();
    return name === 'Bella' && count === 1;
  });
  const { add } = await shop(url);
  expect(await add()).toMatchObject({ code: 0 });
  expect(names()).toEqual(['Rex', 'Bella', 'Bella', 'Lola']);
  expect(creations()[2]?.key).toBe(creations()[1]?.key);
  expect(added.size).toBe(3);
});

test.each([
  ['another run', {}, 0, 'added'],
  ['another API key', { PETS_API_KEY: 'pets_another' }, 8, 'unknown'],
])(
  'a service that is lost in the middle ends it, and the same command goes on: %s',
  async (_name, env, code, result) => {
    let isLost = true;
    const { url, names, added, creations } = await service((name, response) => {
      if (name === 'Bella' && isLost) response.destroy();
      return name === 'Bella' && isLost;
    });
    const { add, file } = await shop(url);
    const first = await add(['--restart']);
    expect(first).toMatchObject({ code: 6, stdout: '' });
    expect(first.stderr).toContain(`1 of 3 rows are added; to go on: pets add --from ${file}\n`);
    isLost = false;
    const second = await add([], { env });
    expect(second.code).toBe(code);
    expect(statuses(second.stdout)[1]).toContain(`3 ${result}`);
    expect(added.size).toBe(3);
    expect(new Set(creations().map(({ key }) => key)).size).toBe(3);
    expect(names().filter((name) => name === 'Rex')).toHaveLength(1);
  },
);

test('a service that has not shown that it honours the key: a row in doubt is told so, and never sent again', async () => {
  const { url, names } = await service((name, response) => {
    if (name === 'Bella') response.destroy();
    return name === 'Bella';
  }, {});
  const { add } = await shop(url);
  expect(await add()).toMatchObject({ code: 6, stdout: '' });
  expect(names()).toEqual(['Rex', 'Bella']);
  for (const run of [await add(), await add()]) {
    expect(run.code).toBe(8);
    expect(statuses(run.stdout)).toEqual(['2 added 1 Rex', '3 unknown  Bella', '4 added 3 Lola']);
    expect(run.stderr).toContain('1 may have been added');
  }
  expect(names()).toEqual(['Rex', 'Bella', 'Lola']);
});

test('Ctrl-C in a pause ends it with 130, and the same command goes on', async () => {
  let isFull = true;
  const { url, names } = await service((name, response) => {
    if (name !== 'Bella' || !isFull) return false;
    reply(
      response,
      429,
      { code: 'rate_limited', message: 'no', status: 429 },
      { 'Retry-After': '30', ...HONOURED },
    );
    return true;
  });
  const { add } = await shop(url);
  const first = await add(['--json'], { onSleep: (_milliseconds, raise) => raise('SIGINT') });
  expect(first).toMatchObject({ code: 130, stdout: '' });
  expect(error(first.stderr)).toMatchObject({ code: 'interrupted' });
  isFull = false;
  // The clock of the next run stands where that of the first began.
  expect(await add([])).toMatchObject({ code: 0 });
  expect(names()).toEqual(['Rex', 'Bella', 'Bella', 'Lola']);
});

test('a key that is rejected in the middle ends it with 4, and nothing is lost', async () => {
  let isRejected = true;
  const { url, names } = await service((name, response) => {
    if (name !== 'Bella' || !isRejected) return false;
    reply(response, 401, { code: 'unauthorized', message: 'no', status: 401 });
    return true;
  });
  const { add } = await shop(url);
  expect(await add()).toMatchObject({ code: 4, stdout: '' });
  isRejected = false;
  expect(await add()).toMatchObject({ code: 0 });
  expect(names()).toEqual(['Rex', 'Bella', 'Bella', 'Lola']);
});

test('alone with its key it meets no 429: it pauses at the edge of each minute, whatever --max-wait says', async () => {
  const quota = { perMinute: 10, perDay: 1_000 };
  const real = await start({ quota, time: '2026-11-20T12:00:00Z' });
  const rows = Array.from({ length: 35 }, (_, i) => `animal ${i},1\n`).join('');
  const { add } = await shop(`${real.listening.origin}/v1`, `name,category\n${rows}`);
  const waits: number[] = [];
  const { code, stderr } = await add(['--max-wait', '0'], {
    onSleep(milliseconds) {
      waits.push(milliseconds);
      real.clock.advance(milliseconds);
    },
  });
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(real.answered.filter(({ status }) => status === 201)).toHaveLength(35);
  expect(real.answered.filter(({ status }) => status === 429)).toEqual([]);
  // 36 requests, with the one that asks first.
  expect(waits).toHaveLength(3);
});

test('a day that is used up ends it with 5, and the command that goes on', async () => {
  const quota = { perMinute: 10, perDay: 3 };
  const real = await start({ quota });
  const { add, file } = await shop(`${real.listening.origin}/v1`);
  const { code, stderr } = await add([], { onSleep: () => expect.unreachable() });
  expect(code).toBe(5);
  expect(stderr).toContain(`2 of 3 rows are added; to go on: pets add --from ${file}\n`);
  expect(stderr).toContain('rate-limited until 2026-11-21 00:00:00 UTC');
});

test('a terminal shows a bar with the reason of a pause, and takes it away', async () => {
  const real = await start({ quota: { perMinute: 3, perDay: 1_000 } });
  const { add } = await shop(`${real.listening.origin}/v1`);
  const { code, stderr, stdout } = await add([], {
    columns: 120,
    onSleep: (milliseconds) => real.clock.advance(milliseconds),
  });
  expect(code).toBe(0);
  expect(stderr).toMatch(/\r\x1b\[K\[#####-----------\] 1\/3/);
  expect(stderr).toMatch(/\[##########------\] 2\/3; waiting \d+ s \(rate limit\), until 12:0\d:\d\d UTC/);
  expect(stderr).toMatch(/\r\x1b\[K.*3 of 3 rows are added\n$/);
  expect(stdout).toMatch(/LINE.*RESULT.*ID.*NAME/);
});

test('results are written whole however many, and steer no terminal', async () => {
  const { url } = await service();
  const rows = Array.from({ length: 900 }, (_, i) => `"animal\x1b[31m ${'x'.repeat(60)}${i}",1\n`).join('');
  const { add } = await shop(url, `name,category\n${rows}`);
  const { stdout } = await add(['--json']);
  expect(JSON.parse(stdout)).toHaveLength(900);
  const piped = (await add()).stdout.trimEnd().split('\n');
  expect([piped.length, piped[899]?.split('\t')[0]]).toEqual([900, '901']);
  const shown = (await add(['--json'], { columns: 80 })).stdout;
  expect(shown).not.toContain('\x1b');
  expect(JSON.parse(shown)).toEqual(JSON.parse(stdout));
});

test('of many rows a terminal shows those that were not added', async () => {
  const { url } = await service((name, response) => {
    if (name !== 'animal 77') return false;
    reply(response, 422, { code: 'no', message: 'not this one', status: 422 });
    return true;
  });
  const rows = Array.from({ length: 120 }, (_, i) => `animal ${i},1\n`).join('');
  const { add } = await shop(url, `name,category\n${rows}`);
  const { code, stdout } = await add([], { columns: 80 });
  expect(code).toBe(8);
  expect(stdout.trimEnd().split('\n')).toHaveLength(2);
  expect(stdout).toContain('not this one');
});

test.each([
  ['animals.ndjson', '{"name":"Rex","categoryId":1}\n'],
  ['animals.json', '[{"name":"Rex","categoryId":1}]'],
])('%s', async (name, text) => {
  const { url } = await service();
  const { add } = await shop(url, text, name);
  expect((await add()).stdout).toMatch(/^1\tadded\t1\tRex\t\n$/);
});

test.each([
  [['Rex'], 'a name and --from'],
  [['--category', '1'], '--category and --from'],
  [['--status', 'sold'], '--status and --from'],
  [['--idempotency-key', 'k'], '--idempotency-key and --from'],
])('%j beside --from is refused', async (args, message) => {
  const { add } = await shop('http://127.0.0.1:9/v1');
  const { code, stderr } = await add(args);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
});

test.each([
  ['', { code: 0, stdout: '' }],
  ['name,category\n', { code: 0, stdout: '' }],
])('no rows at all: %j', async (text, expected) => {
  const { url, requests } = await service();
  const { add } = await shop(url, text);
  expect(await add()).toMatchObject(expected);
  expect((await add(['--json'])).stdout).toBe('[]\n');
  expect(requests).toEqual([]);
});
