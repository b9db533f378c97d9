import { createServer } from 'node:http';
import { expect } from 'vitest';
import { readDocument } from '../../helpers/documents.ts';
import { listenOnLoopback } from '../../helpers/listen.ts';
import { databasesAt } from '../../helpers/postgres/databases.ts';
import { connectTo, startCluster } from '../../helpers/postgres.ts';
import { startProxy } from '../../helpers/real-proxies.ts';
import { testIfInstalled } from '../../helpers/skip.ts';

/** A server of PostgreSQL, and a simulated REST API of Patroni, which reports whether the server is the primary. */
async function startMember({ isPrimary }: { isPrimary: boolean }) {
  const member = { ...(await startCluster()), isPrimary };
  const api = createServer(({ url }, response) => {
    response.writeHead(url === '/primary' && member.isPrimary ? 200 : 503).end();
  });
  return Object.assign(member, { apiPort: await listenOnLoopback(api) });
}

testIfInstalled('haproxy')(
  'HAProxy, as documented, leads to the primary server, and ends the connections to an old one',
  async () => {
    const old = await startMember({ isPrimary: true });
    const next = await startMember({ isPrimary: false });
    const { text } = readDocument('docs/examples/haproxy-postgres.cfg');
    const port = await startProxy('haproxy', (port) =>
      text
        .replace('bind :5432', `bind 127.0.0.1:${port}`)
        .replace('inter 1s', 'inter 50ms')
        .replace(' port 8008', '')
        .replace('10.0.0.21:5432', `127.0.0.1:${old.port} port ${old.apiPort}`)
        .replace('10.0.0.22:5432', `127.0.0.1:${next.port} port ${next.apiPort}`)
        .replace(/^.*10\.0\.0\.23:5432\n/m, ''),
    );
    const { url } = databasesAt(port);
    /** Connects, and returns the connection and the port of the server. */
    const connectThere = async () => {
      const client = await connectTo(url('postgres'));
      const { rows } = await client.query("select current_setting('port')::int as port");
      return { client, port: rows[0].port };
    };
    const portThere = () => connectThere().then(({ port }) => port, String);
    // At the start, HAProxy has not checked the servers yet, and uses each of them.
    await expect.poll(portThere).toBe(old.port);
    const { client } = await connectThere();
    const ended = new Promise((resolve) => client.once('end', resolve));
    old.isPrimary = false;
    next.isPrimary = true;
    await ended;
    await expect.poll(portThere).toBe(next.port);
  },
);
