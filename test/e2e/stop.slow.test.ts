import { once } from 'node:events';
import { readdir, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { listAllPets } from '../helpers/list-all-pets.ts';
import { freshMachine, serveCommand } from '../helpers/pets.ts';
import { type RawResponse, takeResponse } from '../helpers/raw-client.ts';

// These tests stop `pets serve` while clients use it.

const CONNECTIONS = 64;
const ROUNDS = 5;

type Service = { url: string; key: string };
type Creation = { name: string; id?: number };

/** A raw keep-alive connection, which detects a truncated response. */
async function openConnection({ url }: Service) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  let received: Buffer = Buffer.alloc(0);
  let isClosed = false;
  let wake = () => {};
  // Ignore errors, because the tests also write to connections that the service has closed.
  socket.on('error', () => {});
  socket.setNoDelay(true);
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk]);
    wake();
  });
  socket.once('close', () => {
    isClosed = true;
    wake();
  });
  return {
    socket,
    isClosed: () => isClosed,
    /** The next complete response; undefined if the connection was closed before its first byte. */
    async answer(): Promise<RawResponse | undefined> {
      for (;;) {
        const taken = takeResponse(received, () => false);
        if (taken) {
          received = taken.rest;
          return taken.response;
        }
        if (isClosed && received.length > 0) throw new Error(`truncated response: ${received}`);
        if (isClosed) return undefined;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

/** The bytes of a creation. The name of the animal is also the idempotency key. */
function creationBytes({ key, url }: Service, name: string): string {
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

/** The id of every animal of a store, by name. Fails if a name exists twice. */
async function animalsOf(service: Service): Promise<Map<string, number>> {
  const pets = await listAllPets(service);
  const animals = new Map(pets.map(({ id, name }) => [name, id]));
  expect(animals.size).toBe(pets.length);
  return animals;
}

/** Waits until a stopping service accepts no more connections. */
async function untilItStops({ url }: Service): Promise<void> {
  const { hostname, port } = new URL(url);
  const isAccepting = () =>
    new Promise<boolean>((resolve) => {
      const socket = connect(Number(port), hostname, () => resolve(true));
      socket.once('error', () => resolve(false)).once('close', () => socket.destroy());
      socket.once('connect', () => socket.destroy());
    });
  await expect.poll(isAccepting).toBe(false);
}

test(`SIGTERM with ${CONNECTIONS} writers: every executed request got its response, and every acknowledged animal is kept`, async () => {
  const machine = await freshMachine();
  const args = ['--data', join(machine.home, 'store'), '--plan', 'enterprise', '--no-profile'];
  const creations: Creation[] = [];
  let answeredWhileStopping = 0;
  let toldToClose = 0;
  let answeredInRound = 0;

  for (let round = 0; round < ROUNDS; round++) {
    const service = await serveCommand(machine, args);
    const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => openConnection(service)));
    let isStopping = false;
    answeredInRound = 0;
    const writers = connections.map(async ({ socket, isClosed, answer }, writer) => {
      for (let i = 0; !isClosed(); i++) {
        const creation: Creation = { name: `${round}-${writer}-${i}` };
        creations.push(creation);
        socket.write(creationBytes(service, creation.name));
        const answered = await answer();
        if (answered === undefined) return;
        expect(answered.status).toBe(201);
        creation.id = JSON.parse(answered.body).id;
        answeredInRound++;
        if (isStopping) answeredWhileStopping++;
        if (answered.headers['connection'] === 'close') {
          toldToClose++;
          return;
        }
      }
    });
    await expect.poll(() => answeredInRound).toBeGreaterThan(CONNECTIONS);
    isStopping = true;
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
    await Promise.all(writers);
  }

  const service = await serveCommand(machine, args);
  const answered = creations.filter(({ id }) => id !== undefined);
  expect(answered.length).toBeGreaterThan(CONNECTIONS * ROUNDS);
  expect(answeredWhileStopping).toBeGreaterThan(0);
  // Many connections end with `Connection: close`. The service closed the rest while they were idle.
  expect(toldToClose).toBeGreaterThan(0);
  // A request that arrived while its connection was closing was not executed.
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
});

describe('a stopping service', () => {
  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'exits with 0 on %s, also with idle clients',
    async (signal) => {
      const service = await serveCommand(await freshMachine(), ['--ephemeral']);
      const { socket, answer } = await openConnection(service);
      socket.write(creationBytes(service, 'Rex'));
      expect(await answer()).toMatchObject({ status: 201 });
      expect(await service.end(signal)).toEqual({ code: 0, signal: null });
      expect(await answer()).toBeUndefined();
      expect(service.stderr()).toBe('');
    },
  );

  test('responds to a request whose body is still being sent', async () => {
    const service = await serveCommand(await freshMachine(), ['--ephemeral']);
    const { socket, answer } = await openConnection(service);
    const bytes = creationBytes(service, 'Rex');
    socket.write(bytes.slice(0, -10));
    await settled(service);
    const ended = service.end('SIGTERM');
    await untilItStops(service);
    socket.write(bytes.slice(-10));
    expect(await answer()).toMatchObject({ status: 201, headers: { connection: 'close' } });
    expect(await ended).toEqual({ code: 0, signal: null });
  });

  test('exits with 0 although a client never completes its body', async () => {
    const service = await serveCommand(await freshMachine(), ['--ephemeral']);
    const { socket, answer } = await openConnection(service);
    socket.write(creationBytes(service, 'Rex').slice(0, -10));
    await settled(service);
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
    expect(await answer()).toBeUndefined();
  });

  test('does not wait for a connection that never sent anything', async () => {
    const service = await serveCommand(await freshMachine(), ['--ephemeral']);
    await openConnection(service);
    await settled(service);
    expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
  });

  test('completes a response that is read slowly', async () => {
    const machine = await freshMachine();
    const seed = join(machine.home, 'orders.json');
    // The response must be larger than the socket buffers.
    const orders = Array.from({ length: 8_000 }, (_, id) => ({ id, note: 'x'.repeat(1_000) }));
    await writeFile(seed, JSON.stringify({ pets: [], orders }));
    const service = await serveCommand(machine, ['--ephemeral', '--seed', seed]);
    const { socket, answer } = await openConnection(service);
    socket.write(
      `GET /v1/store/orders HTTP/1.1\r\nHost: ${new URL(service.url).host}\r\nAuthorization: Bearer ${service.key}\r\n\r\n`,
    );
    await once(socket, 'data');
    socket.pause();
    await settled(service);
    const ended = service.end('SIGTERM');
    await untilItStops(service);
    // Wait longer than the service waits before it closes idle connections.
    await new Promise((resolve) => setTimeout(resolve, 300));
    socket.resume();
    expect(JSON.parse((await answer())?.body ?? '')).toHaveLength(8_000);
    expect(await ended).toEqual({ code: 0, signal: null });
  });

  test('sends responses at once that --latency delays', async () => {
    const service = await serveCommand(await freshMachine(), ['--ephemeral', '--latency', '60000']);
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
  ] as const)('exits at once on a second %s, with %i', async (signal, code) => {
    const machine = await freshMachine();
    const service = await serveCommand(machine, ['--ephemeral']);
    const { socket, answer } = await openConnection(service);
    socket.write(creationBytes(service, 'Rex').slice(0, -10));
    await settled(service);
    service.child.kill(signal);
    await untilItStops(service);
    expect(await service.end(signal)).toEqual({ code, signal: null });
    expect(await answer()).toBeUndefined();
    // The ephemeral store is deleted.
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  });

  /** Waits for a response on a new connection, so that the service has read what other connections sent before. */
  async function settled({ url }: Service): Promise<void> {
    await (await fetch(new URL('/healthz', url))).text();
  }
});
