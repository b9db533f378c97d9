import { BlockList, type IPVersion, isIP } from 'node:net';

const BLOCK = /^([^/]+)(?:\/(\d{1,3}))?$/;

/** Whether the text is an IP address without a zone, or a CIDR block, such as `10.0.0.0/8` or `fd00::/8`. */
export const isAddressBlock = (text: string): boolean => parseBlock(text) !== undefined;

/**
 * Returns a function that checks whether an IP address is in one of the blocks. An IPv4 address may also be written as
 * an IPv6 address (`::ffff:10.0.0.1`). Text that is not an address is in no block.
 *
 * @throws TypeError for an entry of `blocks` that is neither an address nor a block
 */
export function createAddressMatcher(blocks: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const text of blocks) {
    const block = parseBlock(text);
    if (block === undefined) throw new TypeError(`${text} is not an IP address or a CIDR block`);
    list.addSubnet(block.network, block.bits, block.family);
  }
  return (address) => isIP(address) !== 0 && list.check(address, ipVersionOf(address));
}

function parseBlock(text: string) {
  const [, network = '', bitText] = BLOCK.exec(text) ?? [];
  // A zone, as in fe80::1%eth0, limits an address to one network interface, and BlockList would ignore it.
  if (isIP(network) === 0 || network.includes('%')) return undefined;
  const family = ipVersionOf(network);
  const maxBits = family === 'ipv4' ? 32 : 128;
  const bits = Number(bitText ?? maxBits);
  return bits > maxBits ? undefined : { network, bits, family };
}

/** The IP version of an address, whose text must be valid. */
export const ipVersionOf = (address: string): IPVersion => (address.includes(':') ? 'ipv6' : 'ipv4');
