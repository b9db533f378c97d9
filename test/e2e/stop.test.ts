import { once } from 'node:events';
import { readdir, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, type Served, serve } from '../helpers/pets.ts';

// Ending `pets serve` while it is in use.

const CONNECTIONS = 64;
const ROUNDS = 5;

type Answer = { status: number; head: string; body: string };
type Creation = { name: string; id?: number };

/** A keep-alive connection below HTTP, where an answer that is cut off is seen as one. */
async function openConnection({ url }: Served) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  let received = '';
  let isClosed = false;
  let wake = () => {};
  // What is sent into a connection that closes.
  socket.on('error', () => {});
  socket.setNoDelay(true).setEncoding('utf8');
  socket.on('data', (text) => {
    received += text;
    wake();
  });
  socket.once('close', () => {
    isClosed = true;
    wake();
  });
  return {
    socket,
    isClosed: () => isClosed,
    /** The next answer, whole; undefined where the connection was closed before its first byte. */
    async answer(): Promise<Answer | undefined> {
      for (;;) {
        const [head = '', ...rest] = received.split('\r\n\r\n');
        const length = Number(/^content-length: (\d+)/im.exec(head)?.[1]);
        const end = head.length + 4 + length;
        if (rest.length > 0 && received.length >= end) {
          const body = received.slice(head.length + 4, end);
          received = received.slice(end);
          return { status: Number(head.split(' ')[1]), head, body };
        }
        if (isClosed && received !== '') throw new Error(`half an answer: ${received}`);
        if (isClosed) return undefined;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

/** A creation as bytes; its name is its idempotency key too. */
function creationBytes({ key, url }: Served, name: string): string {
  const body = JSON.stringify({ name, categoryId: 1 });
  const head = [
    'POST /v1/pets HTTP/1.1',
    `Host: ${new URL(url).host}`,
    `Authorization: Bearer ${key}`,
    `Idempotency-Key: "${name}"`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}

/** Every animal of a store: name → id; a name that is there twice is a fault. */
async function animalsOf({ url, key }: Served): Promise<Map<string, number>> {
  const animals = new Map<string, number>();
  let path: string | undefined = '/v1/pets?limit=100';
  while (path !== undefined) {
    const answer: Response = await fetch(new URL(path, url), { headers: { Authorization: `Bearer ${key}` } });
    for (const { id, name } of (await answer.json()) as { id: number; name: string }[]) {
      expect(animals.has(name), `${name} is there once`).toBe(false);
      animals.set(name, id);
    }
    path = /^<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
  }
  return animals;
}

/** Waits until a service that was told to stop accepts no more connections. */
async function untilItStops({ url }: Served): Promise<void> {
  const { hostname, port } = new URL(url);
  const isAccepting = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(Number(port), hostname, () => resolve(true));
      socket.once('error', () => resolve(false)).once('close', () => socket.destroy());
      socket.once('connect', () => socket.destroy());
    });
  await expect.poll(isAccepting, { interval: 10, timeout: 5_000 }).toBe(false);
}

test(`SIGTERM under ${CONNECTIONS} writers: what was carried out was answered, and what was answered is kept`, async () => {
  const machine = await freshMachine();
  const args = ['--data', join(machine.home, 'store'), '--plan', 'enterprise', '--no-profile'];
  const creations: Creation[] = [];
  let answeredWhileStopping = 0;
  let toldToClose = 0;

  for (let round = 0; round < ROUNDS; round++) {
    const service = await serve(machine, args);
    const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => openConnection(service)));
    let isStopping = false;
    const writers = connections.map(async ({ socket, isClosed, answer }, writer) => {
      for (let i = 0; !isClosed(); i++) {
        const creation: Creation = { name: `${round}-${writer}-${i}` };
        creations.push(creation);
        socket.write(creationBytes(service, creation.name));
        const answered = await answer();
        if (answered === undefined) return;
        expect(answered.status).toBe(201);
        creation.id = JSON.parse(answered.body).id;
        if (isStopping) answeredWhileStopping++;
        if (/^connection: close/im.test(answered.head)) {
          toldToClose++;
          return;
        }
      }
    });
    await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 150));
    const asked = performance.now();
    isStopping = true;
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
    // Clients that never pause do not keep it for the 8 s that a slow one gets.
    expect(performance.now() - asked).toBeLessThan(6_000);
    await Promise.all(writers);
  }

  const service = await serve(machine, args);
  const answered = creations.filter(({ id }) => id !== undefined);
  expect(answered.length).toBeGreaterThan(CONNECTIONS * ROUNDS);
  expect(answeredWhileStopping).toBeGreaterThan(0);
  // All of them, but where this process was held up for as long as the service waits for what is on its way.
  expect(toldToClose).toBeGreaterThan((CONNECTIONS * ROUNDS) / 2);
  // A request that crossed the closing of its connection was not read: it left nothing behind.
  expect(await animalsOf(service)).toEqual(new Map(answered.map(({ name, id }) => [name, id])));

  const connection = await openConnection(service);
  for (const creation of creations.filter((each) => each.id === undefined || Math.random() < 0.05)) {
    connection.socket.write(creationBytes(service, creation.name));
    const again = await connection.answer();
    expect(again?.status).toBe(201);
    const { id } = JSON.parse(again?.body ?? '');
    expect(id).toBe(creation.id ?? id);
    creation.id = id;
  }
  expect(await animalsOf(service)).toEqual(new Map(creations.map(({ name, id }) => [name, id])));
}, 60_000);

describe('a service that is told to stop', () => {
  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'by %s ends with 0, idle clients or not',
    async (signal) => {
      const service = await serve(await freshMachine(), ['--ephemeral']);
      const { socket, answer } = await openConnection(service);
      socket.write(creationBytes(service, 'Rex'));
      expect(await answer()).toMatchObject({ status: 201 });
      expect(await service.end(signal)).toEqual({ code: 0, signal: null });
      expect(await answer()).toBeUndefined();
      expect(service.stderr()).toBe('');
    },
  );

  test('answers a request whose body is still on its way', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral']);
    const { socket, answer } = await openConnection(service);
    const bytes = creationBytes(service, 'Rex');
    socket.write(bytes.slice(0, -10));
    await settled(service);
    const ended = service.end('SIGTERM');
    await untilItStops(service);
    socket.write(bytes.slice(-10));
    expect(await answer()).toMatchObject({
      status: 201,
      head: expect.stringMatching(/^connection: close/im),
    });
    expect(await ended).toEqual({ code: 0, signal: null });
  });

  test('does not wait for a connection that never sent anything', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral']);
    await openConnection(service);
    await settled(service);
    const asked = performance.now();
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(performance.now() - asked).toBeLessThan(4_000);
  });

  test('ends an answer that is read slowly', async () => {
    const machine = await freshMachine();
    const seed = join(machine.home, 'orders.json');
    // More than the buffers between the two take.
    const orders = Array.from({ length: 8_000 }, (_, id) => ({ id, note: 'x'.repeat(1_000) }));
    await writeFile(seed, JSON.stringify({ pets: [], orders }));
    const service = await serve(machine, ['--ephemeral', '--seed', seed]);
    const { socket, answer } = await openConnection(service);
    socket.write(
      `GET /v1/store/orders HTTP/1.1\r\nHost: ${new URL(service.url).host}\r\nAuthorization: Bearer ${service.key}\r\n\r\n`,
    );
    await once(socket, 'data');
    socket.pause();
    await settled(service);
    const ended = service.end('SIGTERM');
    await untilItStops(service);
    // Longer than the service waits before it closes what is idle.
    await new Promise((resolve) => setTimeout(resolve, 300));
    socket.resume();
    expect(JSON.parse((await answer())?.body ?? '')).toHaveLength(8_000);
    expect(await ended).toEqual({ code: 0, signal: null });
  });

  test('answers at once what --latency holds back', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral', '--latency', '60000']);
    const { socket, answer } = await openConnection(service);
    socket.write(creationBytes(service, 'Rex'));
    await settled(service);
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(await answer()).toMatchObject({ status: 201 });
  });

  test.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
    ['SIGHUP', 129],
  ] as const)('by a second %s ends at once with %i', async (signal, code) => {
    const machine = await freshMachine();
    const service = await serve(machine, ['--ephemeral']);
    const { socket, answer } = await openConnection(service);
    socket.write(creationBytes(service, 'Rex').slice(0, -10));
    await settled(service);
    service.child.kill(signal);
    await untilItStops(service);
    const asked = performance.now();
    expect(await service.end(signal)).toEqual({ code, signal: null });
    expect(performance.now() - asked).toBeLessThan(3_000);
    expect(await answer()).toBeUndefined();
    // The store that was to be gone at the end is.
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  });

  /** Comes back when the service has read what other connections sent before: it answers on a new one. */
  async function settled({ url }: Served): Promise<void> {
    await (await fetch(new URL('/healthz', url))).text();
  }
});
