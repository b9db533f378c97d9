import type { Client } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { PrimaryConnector, parseDatabaseTarget } from '../../../src/store/postgres/connector.ts';
import { closedPort } from '../../helpers/listen.ts';
import { movableAddress, startCluster, startSynchronousReplica } from '../../helpers/postgres.ts';

/** A function that opens a connection to the host that accepts writes, as a user who is not a superuser. */
function connectorFor(ports: readonly number[]) {
  const hosts = ports.map((port) => `127.0.0.1:${port}`).join(',');
  const url = `postgres://pets@${hosts}/postgres?target_session_attrs=read-write`;
  const connector = new PrimaryConnector(parseDatabaseTarget(url, { env: {}, userName: undefined }));
  return async (): Promise<Client> => {
    const client = await connector.connect({ timeout: 1_000, isServer: false });
    onTestFinished(() => void client.connection.stream.destroy());
    return client;
  };
}

const portOf = async (client: Client): Promise<number> =>
  Number((await client.query("select current_setting('port') as port")).rows[0].port);

test('the server that accepts writes is used, wherever it is in the URL', async () => {
  const primary = await startCluster();
  const standby = await startSynchronousReplica(primary);
  const closed = await closedPort();
  for (const ports of [
    [standby.port, primary.port],
    [primary.port, standby.port],
    [closed, standby.port, primary.port],
    // The same server twice
    [primary.port, primary.port],
  ]) {
    const connect = connectorFor(ports);
    expect(await portOf(await connect())).toBe(primary.port);
  }

  // A standby server counts as unavailable, because it can become the primary server.
  const readOnly = 'the database is read-only: a standby server, or default_transaction_read_only is on';
  await expect(connectorFor([standby.port, closed])()).rejects.toMatchObject({
    message: `no server accepts writes (127.0.0.1:${standby.port}: ${readOnly}; 127.0.0.1:${closed}: connection refused)`,
    outcome: 'not_done',
  });
  const refused = { message: readOnly, outcome: 'not_done' };
  await expect(connectorFor([standby.port])()).rejects.toMatchObject(refused);
  await primary.setReadOnly(true);
  await expect(connectorFor([primary.port])()).rejects.toMatchObject(refused);
});

test('of two servers that accept writes, the one that was promoted last is used', async () => {
  const old = await startCluster();
  const standby = await startSynchronousReplica(old);
  // The old primary server responds earlier.
  const distant = await movableAddress(standby, 10);
  const connect = connectorFor([old.port, distant.port]);
  const first = await connect();
  expect(await portOf(first)).toBe(old.port);
  await old.set('synchronous_standby_names', '');
  const ended = new Promise((resolve) => first.once('end', resolve));

  await standby.promote();
  const clients = [await connect(), await connect()];
  expect(await Promise.all(clients.map(portOf))).toEqual([standby.port, standby.port]);
  // The connector ends the first connection, because calls on it would still change the old primary server.
  await ended;
  await old.pause();
  expect(await portOf(await connect())).toBe(standby.port);
  await standby.pause();
  await expect(connect()).rejects.toThrow(`127.0.0.1:${distant.port}: the server did not respond in time`);
  // The old primary server still accepts writes, but this process knows that another one was promoted.
  old.resume();
  const refused = `127.0.0.1:${old.port}: it is an old primary server, because another one was promoted later`;
  await expect.poll(() => connect().catch(({ message }) => message)).toContain(refused);
  expect(await portOf(await connectorFor([old.port, distant.port])())).toBe(old.port);
  standby.resume();
  await expect.poll(async () => portOf(await connect())).toBe(standby.port);
  // Connections to the server that is used stay open.
  expect(await Promise.all(clients.map(portOf))).toEqual([standby.port, standby.port]);
});
