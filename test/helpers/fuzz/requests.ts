import fc from 'fast-check';
import { errorCodes } from '../../../src/contract/error-codes.ts';
import { type OperationName, operations } from '../../../src/contract/operations.ts';
import type { CreateRequest } from '../../../src/store/store.ts';
import { body } from './bodies.ts';
import { type Frame, oneOddPart, type Parts, partsOf } from './parts.ts';
import { legible } from './wire.ts';

/** A request, and the results that are possible regardless of earlier requests. */
export type FuzzedRequest = {
  bytes: Buffer;
  method: string;
  path: string;
  operation?: OperationName;
  /** The possible statuses, besides 429 if `limitedBy` is set, and 503 if the request counts. */
  statuses: readonly number[];
  /** The API key whose limit applies: if it is used up, the request gets 429. */
  limitedBy?: string;
  /** Whether the request consumes quota of the key in `limitedBy`. A request with Prefer does not. */
  counts: boolean;
  creates?: { pet: CreateRequest['pet']; caller: string; key?: string };
  /** The id of the requested animal. */
  reads?: bigint;
  /** Whether the response is mocked with Prefer. */
  isPreferred: boolean;
  /** Whether the service may close the connection after the response. */
  mayEnd: boolean;
};

/** Generates requests. Most have one of these API keys; a few have an invalid key or none. */
export const requestOf = (keys: readonly string[]): fc.Arbitrary<FuzzedRequest> =>
  partsOf(keys).map(assemble);

/** Requests that differ from ordinary ones in one part, among them with `bodies` random bodies. */
export const requestsWithOneOddPart = (key: string, bodies: number): FuzzedRequest[] =>
  oneOddPart(key, fc.sample(body, { numRuns: bodies, seed: 1 })).map(assemble);

/** Truncated requests. None has an Upgrade header, because Node would not notice that such a request is truncated. */
export const cutRequestOf = (keys: readonly string[]): fc.Arbitrary<FuzzedRequest> =>
  fc
    .tuple(
      requestOf(keys).filter(({ bytes }) => !bytes.includes('Upgrade:')),
      fc.nat(0xffff),
    )
    .map(([{ creates: _, ...request }, at]) =>
      shown({
        ...request,
        bytes: request.bytes.subarray(0, 1 + (at % (request.bytes.length - 1))),
        // If all headers arrive, the service may respond without waiting for the body, instead of sending 400.
        statuses: [400, ...request.statuses.filter((status) => status !== 201 || request.isPreferred)],
        mayEnd: true,
      }),
    );

function assemble(parts: Parts): FuzzedRequest {
  const { method, place, version, prefer, idempotency, authorization, body, connection } = parts;
  const name = place.methods[method.text];
  const operation = name === 'page' ? undefined : name;
  const isParsed = method.refused === undefined && parts.rest.refused === undefined;
  const asksApi = isParsed && place.isApi && method.text !== 'OPTIONS';
  const prefers = asksApi && prefer.code !== undefined;
  const statuses = isParsed ? possibleStatuses(parts) : [method.refused, parts.rest.refused].filter(isStatus);
  const caller = authorization.key;
  const limitedBy = asksApi && !hostRefused(parts) ? caller : undefined;
  const request: FuzzedRequest = {
    bytes: render(parts),
    method: method.text,
    path: place.text,
    statuses,
    counts: limitedBy !== undefined && !prefers,
    isPreferred: prefers && statuses.length === 1 && statuses[0] === preferred(operation, prefer.code),
    mayEnd:
      !isParsed ||
      version === '1.0' ||
      /close|Upgrade/.test(connection) ||
      parts.expectation.text.includes('100'),
    ...(operation && { operation }),
    ...(limitedBy !== undefined && { limitedBy }),
  };
  if (statuses.includes(201) && !prefers && body.pet && caller !== undefined) {
    const { key } = idempotency;
    request.creates = { pet: body.pet, caller, ...(key !== undefined && { key }) };
  }
  if (statuses.includes(200) && !prefers && place.reads !== undefined) request.reads = place.reads;
  return shown(request);
}

/** The possible statuses of a request that Node's parser accepts. If parts are wrong, only their errors are possible. */
function possibleStatuses(parts: Parts): number[] {
  const { method, place, query, authorization, prefer } = parts;
  const name = place.methods[method.text];
  const operation = name === 'page' ? undefined : name;
  const isOptions = method.text === 'OPTIONS';
  const prefers = place.isApi && !isOptions && prefer.code !== undefined;
  // `OPTIONS *` and `OPTIONS /` ask about the whole server.
  const isServer = isOptions && /^(?:\*|(?:http:\/\/127\.0\.0\.1)?\/?)$/.test(place.text + query.text);
  const placeRefused = isServer ? undefined : place.refused;
  const problems = [hostRefused(parts), placeRefused];
  if (!prefers || name === undefined) problems.push(query.refused);
  if (placeRefused === undefined && name === undefined && !isOptions) problems.push(405);
  if (place.isApi && !isOptions) problems.push(authorization.refused);
  if (name !== undefined && !prefers) problems.push(parts.expectation.refused);
  if (operation && !prefers) {
    problems.push(place.refusedByOperation);
    if (operation === 'listPets') problems.push(query.refusedByList);
    if (operation === 'createPet')
      problems.push(parts.type.refused, parts.idempotency.refused, parts.body.refused);
  }
  const refusals = problems.filter(isStatus);
  // OPTIONS needs no API key, but an invalid API key may be rejected.
  const anonymous = isOptions && place.isApi ? [authorization.refused].filter(isStatus) : [];
  if (refusals.length > 0) return [...refusals, ...anonymous];
  if (isOptions) return [204, ...anonymous];
  if (operation === undefined) return [200];
  if (prefers) return [preferred(operation, prefer.code) ?? 400];
  const { success } = operations[operation];
  if (operation === 'createPet') return [success.status, 409, 422];
  return operation === 'getPet' ? [success.status, 404, 410] : [success.status];
}

/** The status of the error in the Host header. An absolute target replaces the name, and HTTP/1.0 needs no such header. */
function hostRefused({ place, host, version }: Parts): number | undefined {
  if (/^http/i.test(place.text) && host.refused === 421) return undefined;
  if (version === '1.0' && host.text === '') return undefined;
  return host.refused;
}

const isStatus = (status: number | undefined): status is number => status !== undefined;

/** The status that `Prefer: code=…` asks for; undefined if the operation cannot have it. */
function preferred(operation: OperationName | undefined, code: string | undefined): number | undefined {
  const possible: number[] = Object.values(errorCodes);
  if (operation) possible.push(operations[operation].success.status);
  return possible.find((status) => String(status) === code);
}

function render({ method, place, query, version, hasBody, frame, body, ...parts }: Parts): Buffer {
  const { host, authorization, type, idempotency, prefer, expectation, rest, connection } = parts;
  const head = [host, authorization, type, idempotency, prefer, expectation, rest]
    .map(({ text }) => text)
    .join('');
  // HTTP/1.0 has neither chunks nor persistent connections, so leave out both.
  const isOld = version === '1.0';
  const target = method.text === 'CONNECT' ? 'a.example:443' : place.text + query.text;
  return Buffer.concat([
    Buffer.from(`${method.text} ${target} HTTP/${version}\r\n${head}${isOld ? '' : connection}`, 'latin1'),
    hasBody || method.text === 'POST' ? framed(body.bytes, isOld ? 'length' : frame) : Buffer.from('\r\n'),
  ]);
}

function framed(bytes: Buffer, frame: Frame): Buffer {
  if (frame === 'length')
    return Buffer.concat([Buffer.from(`Content-Length: ${bytes.length}\r\n\r\n`), bytes]);
  const pieces: Buffer[] = [Buffer.from('Transfer-Encoding: chunked\r\n\r\n')];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    // Large bodies get larger chunks, so that the test stays fast.
    const size = Math.max(frame.sizes[i % frame.sizes.length] ?? 1, bytes.length >> 7);
    const chunk = bytes.subarray(at, at + size);
    pieces.push(
      Buffer.from(`${chunk.length.toString(16)}${frame.extension}\r\n`),
      chunk,
      Buffer.from('\r\n'),
    );
    at += size;
  }
  return Buffer.concat([...pieces, Buffer.from(`0\r\n${frame.trailer}\r\n`)]);
}

/** Makes fast-check print the bytes of a request. */
const shown = (request: FuzzedRequest): FuzzedRequest =>
  Object.defineProperty(request, fc.toStringMethod, { value: () => legible(request.bytes) });
