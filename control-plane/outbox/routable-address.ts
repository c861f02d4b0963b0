import ipaddr from 'ipaddr.js';

/** Whether the host of a URL is an address and no name. Brackets are gone. */
export const isIpLiteral = (host: string): boolean => ipaddr.isValid(host);

/**
 * Whether the address belongs to one machine on the public internet. False for everything else: private,
 * shared, loopback, link-local, multicast, documentation and reserved ranges, and IPv6 that stands for an
 * IPv4 address (NAT64, 6to4, Teredo), because it leads wherever a translator takes it. IPv4-mapped IPv6 is
 * judged as the IPv4 address that the operating system makes of it. Text that is no address: false.
 */
export function isGloballyRoutable(text: string): boolean {
  if (!ipaddr.isValid(text)) return false;
  // The short and the odd spellings of IPv4 (127.1, 0x7f000001) are read as the operating system reads them.
  const address = ipaddr.process(text);
  if (address.kind() === 'ipv4') return address.range() === 'unicast';
  return address.range() === 'unicast' && isGlobalIpv6(address.toByteArray());
}

/**
 * Whether the address leads to the link of this machine, where clouds hand out the credentials of the machine
 * itself: 169.254.0.0/16, also inside an IPv6 address (NAT64, 6to4), fe80::/10, and the addresses of metadata
 * services elsewhere. Nobody runs a receiver there, so no setting opens it. Text that is no address: false.
 */
export function isLinkLocal(text: string): boolean {
  if (!ipaddr.isValid(text)) return false;
  const address = ipaddr.process(text);
  if (address.range() === 'linkLocal' || metadataServices.has(address.toString())) return true;
  if (address.kind() === 'ipv4' || isGloballyRoutable(text)) return false;
  const bytes = address.toByteArray();
  return [bytes.slice(-4), bytes.slice(2, 6)].some(([first, second]) => first === 169 && second === 254);
}

/** Of AWS, Google Cloud and Alibaba Cloud. */
const metadataServices = new Set(['fd00:ec2::254', 'fd20:ce::254', '100.100.100.200']);

/**
 * RFC 4291 §2.4: all global unicast that was ever given out lies in 2000::/3. Inside it are ranges that the
 * library does not list or calls unicast.
 */
function isGlobalIpv6(bytes: readonly number[]): boolean {
  const [first = 0, second = 0, third = 0] = bytes;
  const isGlobalUnicast = (first & 0xe0) === 0x20;
  // 2001::/23 (RFC 2928): protocol assignments. 3fff::/20 (RFC 9637): documentation.
  const isProtocol = first === 0x20 && second === 0x01 && (third & 0xfe) === 0;
  const isDocumentation = first === 0x3f && second === 0xff && (third & 0xf0) === 0;
  return isGlobalUnicast && !isProtocol && !isDocumentation;
}
