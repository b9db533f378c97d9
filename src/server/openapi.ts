import { readFileSync } from 'node:fs';

const document = readFileSync(new URL('openapi.json', import.meta.url), 'utf8');

/** The OpenAPI description of the service. `baseUrl` replaces the URL of its first server (docs/service.md 12). */
export const openApiDocument = (baseUrl: string): string =>
  document.replace('"/v1"', () => JSON.stringify(baseUrl));
