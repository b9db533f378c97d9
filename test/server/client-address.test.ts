import { expect, test } from 'vitest';
import { createAddressReader } from '../../src/server/request/checks.ts';
import { createAddressMatcher } from '../../src/system/address-blocks.ts';
import { startReal } from '../helpers/real-service.ts';
import { start } from '../helpers/service.ts';

const isTrustedProxy = createAddressMatcher(['127.0.0.1', '10.0.0.0/8', 'fd00::/8']);
const PEER = '10.0.0.1';
const arrival = (remoteAddress: string, forwarded: string | undefined) =>
  ({ socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } }) as never;

test.each<[about: string, peer: string, forwarded: string | undefined, expected: string]>([
  ['is the peer without X-Forwarded-For', PEER, undefined, PEER],
  ['is the peer if the peer is not trusted', '192.0.2.1', '198.51.100.7', '192.0.2.1'],
  [
    'is the rightmost one that is not trusted',
    PEER,
    '198.51.100.7, 192.0.2.9,10.2.3.4 , fd00::2',
    '192.0.2.9',
  ],
  ['is the leftmost one if all are trusted', PEER, '10.9.9.9, 10.2.3.4', '10.9.9.9'],
  ['may be an IPv6 address, and has one notation', PEER, '2001:DB8:0:0::1', '2001:db8::1'],
  ['is IPv4 even on an IPv6 socket', '::ffff:10.0.0.1', '::ffff:c633:6407', '198.51.100.7'],
  ['of the peer is IPv4 even on an IPv6 socket', '::ffff:192.0.2.1', undefined, '192.0.2.1'],
  ['is not one that is near a trusted one', PEER, '198.51.100.7, 127.0.0.2, 127.0.0.1', '127.0.0.2'],
  ['is the peer if the list has anything but addresses', PEER, 'nonsense, 198.51.100.7', PEER],
  ['is unknown if the connection is already closed', 'unknown', '198.51.100.7', 'unknown'],
  ['is the peer if that has a zone, which no block has', 'fe80::1%eth0', '198.51.100.7', 'fe80::1%eth0'],
  ['may have a port', PEER, '203.0.113.9:51234', '203.0.113.9'],
  ['may be an IPv6 address with a port', PEER, '10.9.9.9, [2001:db8::1]:443', '2001:db8::1'],
  ['may be an IPv6 address in brackets', PEER, '[2001:db8::1]', '2001:db8::1'],
  ['is the peer if a port is not a number', PEER, '203.0.113.9:http', PEER],
  ['is the peer if the list has an empty entry', PEER, '198.51.100.7,', PEER],
])('the address of the client %s (peer %s, list %j)', (_about, peer, forwarded, expected) => {
  expect(createAddressReader(isTrustedProxy)(arrival(peer, forwarded))).toBe(expected);
  expect(createAddressReader(undefined)(arrival('192.0.2.9', forwarded))).toBe('192.0.2.9');
});

test('a warning says once that X-Forwarded-For of a trusted proxy cannot be read', async () => {
  const { call, warnings } = await startReal({ trustedProxies: ['127.0.0.1'] });
  for (const forwarded of ['198.51.100.7', 'for=192.0.2.1', 'for=192.0.2.1'])
    await call('/pets', { headers: { 'X-Forwarded-For': forwarded } });
  expect(warnings).toEqual([
    'X-Forwarded-For of proxy 127.0.0.1 is invalid (for=192.0.2.1); clients without a key share a limit',
  ]);
});

test('requests without a valid key are counted per /64 block of IPv6 addresses', async () => {
  const { call } = await start({ isTrustedProxy });
  const remaining = async (forwarded: string) => {
    const headers = { Authorization: '', 'X-Forwarded-For': forwarded };
    return Number((await call('/v1/pets', { headers })).headers.get('x-ratelimit-remaining'));
  };
  expect(await remaining('2001:db8:1:2::7')).toBe(59);
  expect(await remaining('2001:db8:1:2:3::8')).toBe(58);
  expect(await remaining('2001:db8:1:3::7')).toBe(59);
  expect(await remaining('2001:db8::7')).toBe(59);
  expect(await remaining('2001:db8:0:0:9:9:9:9')).toBe(58);
});
