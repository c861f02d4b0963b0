import { describe, expect, it } from 'vitest';
import {
  isGloballyRoutable,
  isIpLiteral,
  isLinkLocal,
} from '../../../../control-plane/outbox/routable-address.ts';

const global = [
  ...['1.1.1.1', '8.8.8.8', '93.184.216.34', '172.15.255.255', '172.32.0.0', '100.63.255.255', '100.128.0.0'],
  ...['223.255.255.255', '2606:4700:4700::1111', '2a00:1450:4001:82a::200e', '::ffff:8.8.8.8'],
];

/** Each with where it would lead. */
const notGlobal: Readonly<Record<string, string>> = {
  '0.0.0.0': 'this machine',
  '0.1.2.3': 'this network',
  '127.0.0.1': 'loopback',
  '127.255.255.254': 'loopback',
  '10.0.0.1': 'private',
  '172.16.0.1': 'private',
  '172.31.255.255': 'private',
  '192.168.1.1': 'private',
  '100.64.0.1': 'shared by carriers',
  '169.254.169.254': 'link-local: metadata of clouds',
  '192.0.0.1': 'protocol assignments',
  '192.0.2.1': 'documentation',
  '198.18.0.1': 'benchmarks',
  '198.51.100.7': 'documentation',
  '203.0.113.7': 'documentation',
  '192.88.99.1': '6to4 relay',
  '224.0.0.1': 'multicast',
  '240.0.0.1': 'reserved',
  '255.255.255.255': 'broadcast',
  '::': 'unspecified',
  '::1': 'loopback',
  '::ffff:127.0.0.1': 'mapped loopback',
  '::ffff:7f00:1': 'mapped loopback in hexadecimal',
  '::ffff:10.0.0.1': 'mapped private',
  '::127.0.0.1': 'IPv4-compatible, deprecated',
  '::ffff:0:127.0.0.1': 'translated (RFC 2765)',
  '64:ff9b::7f00:1': 'NAT64 of loopback',
  '64:ff9b::808:808': 'NAT64 of a public address',
  '64:ff9b:1::1': 'NAT64 of a local network',
  '100::1': 'discard',
  '2001::1': 'Teredo',
  '2001:2::1': 'benchmarks',
  '2001:20::1': 'ORCHID',
  '2001:db8::1': 'documentation',
  '3fff::1': 'documentation',
  '2002:7f00:1::': '6to4 of loopback',
  '2002:808:808::': '6to4 of a public address',
  '5f00::1': 'segment routing',
  'fc00::1': 'unique local',
  'fd12:3456:789a::1': 'unique local',
  'fe80::1': 'link-local',
  'fe80::1%eth0': 'link-local with a zone',
  'fec0::1': 'site-local, deprecated',
  'ff02::1': 'multicast',
  'example.com': 'no address',
  '': 'no address',
};

describe('an address', () => {
  it.each(global)('%s is one machine on the public internet', (address) => {
    expect(isGloballyRoutable(address)).toBe(true);
  });

  it.each(Object.entries(notGlobal))('%s is not: %s', (address) => {
    expect(isGloballyRoutable(address)).toBe(false);
  });

  it.each([
    ...['169.254.169.254', '169.254.0.1', '0xa9fea9fe', '::ffff:169.254.169.254', '::169.254.169.254'],
    ...['fe80::1', 'fe80::1%eth0', 'febf::1', '64:ff9b::a9fe:a9fe', '2002:a9fe:a9fe::', 'fd00:ec2::254'],
    ...['FD00:0EC2:0:0:0:0:0:254', 'fd00:c1::a9fe:a9fe', 'fd20:ce::254', '100.100.100.200'],
  ])('%s leads to the link, or to a metadata service', (address) => {
    expect(isLinkLocal(address)).toBe(true);
    expect(isGloballyRoutable(address)).toBe(false);
  });

  it.each([
    ...['127.0.0.1', '10.0.0.1', '169.253.255.255', '169.255.0.1', '::1', 'fec0::1', 'fd00:ec2::255'],
    ...['2606:4700:a9fe:a9fe::1', '100.100.100.201', 'example.com', ''],
  ])('%s does not', (address) => {
    expect(isLinkLocal(address)).toBe(false);
  });

  it('is told apart from a name', () => {
    expect(['1.2.3.4', '::1', '2130706433', '0x7f.1'].map(isIpLiteral)).toEqual([true, true, true, true]);
    expect(['example.com', '1.2.3.4.example', 'localhost', ''].map(isIpLiteral)).toEqual([
      false,
      false,
      false,
      false,
    ]);
  });
});
