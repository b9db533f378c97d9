import { plans } from '../../src/contract/plans.ts';
import { allowedHosts } from '../../src/server/request/checks.ts';
import { KEY, type ServiceOptions } from './service.ts';

// Raw HTTP requests and their parts, which tests combine and damage.

export const HOST = 'Host: 127.0.0.1\r\n';
export const AUTH = `Authorization: Bearer ${KEY}\r\n`;
export const CLOSE = 'Connection: close\r\n';
export const JSON_TYPE = 'Content-Type: application/json\r\n';
export const REX = '{"name":"Rex","categoryId":1}';

/** A GET request that asks the service to close the connection after the response. */
export const get = (target: string, headers = '') =>
  `GET ${target} HTTP/1.1\r\n${HOST}${AUTH}${headers}${CLOSE}\r\n`;
/** A request that keeps the connection open. `rest` follows the Host and Authorization headers. */
export const open = (method: string, target: string, rest = '\r\n') =>
  `${method} ${target} HTTP/1.1\r\n${HOST}${AUTH}${rest}`;
export const post = (body: string | Buffer, headers = JSON_TYPE) =>
  Buffer.concat([
    Buffer.from(`POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${headers}${CLOSE}`),
    Buffer.from(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`),
    Buffer.from(body),
  ]);
export const chunked = (rest: string) =>
  `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${JSON_TYPE}${CLOSE}Transfer-Encoding: chunked\r\n\r\n${rest}`;

export const atLoopback: ServiceOptions = {
  hosts: allowedHosts({ host: '127.0.0.1', address: '127.0.0.1' }, []),
};
/** Options for a test that sends more requests than plan free allows. */
export const rich: ServiceOptions = { ...atLoopback, quota: plans.enterprise };
