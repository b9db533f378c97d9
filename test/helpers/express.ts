import { createServer } from 'node:http';
import express, { type Express } from 'express';
import { listenOnLoopback } from './listen.ts';

/** Starts an Express app, and stops it after the test. Returns the host and port of the app. */
export async function startExpress(configure: (app: Express, host: () => string) => void): Promise<string> {
  let host = '';
  const app = express();
  configure(app, () => host);
  host = `127.0.0.1:${await listenOnLoopback(createServer(app))}`;
  return host;
}

/**
 * An inventory with one animal on each of three pages. Its links are absolute and contain the address of the
 * server, which clients of a reverse proxy cannot reach.
 */
export const inventoryWithAbsoluteLinks = (): Promise<string> =>
  startExpress((app, host) =>
    app.get('/v1/pets', (request, response) => {
      const page = Number(request.query['page'] ?? 1);
      if (page < 3) response.links({ next: `http://${host()}/v1/pets?page=${page + 1}` });
      response.json([{ id: page, name: 'Rex', categoryId: 1, status: 'sold' }]);
    }),
  );
