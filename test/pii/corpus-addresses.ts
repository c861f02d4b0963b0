import type { Group } from './corpus.ts';

const email: Group = {
  type: 'email',
  texts: [
    ...['«jane.doe@example.com»', 'jane <«jane@example.org»>', '«JANE.DOE@EXAMPLE.COM»'],
    ...['«jane+invoices@example.net», thanks', 'mailto:«support@example.co.uk»?subject=Hello'],
    ...['«x@example.io»', "Contact: «o'brien@example.ie»."],
    "the user 'bob@example.com' left".replace('bob@example.com', '«bob@example.com»'),
    ...['«first_last@sub-domain.example.com»', '«1234567890@example.com»', '«user%relay@example.com»'],
    ...['«müller@example.de»', '«kontakt@xn--bcher-kva.example»', '«пётр@почта.рф»', '«用户@例子.公司»'],
    ...['请联系«user@example.com»谢谢', '«अजय@डाटा.भारत»'],
    'https://example.com/unsubscribe?email=«jane@example.com»&list=3',
    'https://example.com/u/«jane@example.com»/profile',
    ...['{"to":"«jane@example.com»","cc":"«joe@example.org»"}', '«jane@example.com»,«joe@example.org»'],
    ...['ｆｕｌｌ ｗｉｄｔｈ: «ｊａｎｅ＠ｅｘａｍｐｌｅ．ｃｏｍ»', '"«john@example.com»" is quoted'],
    ...['«"john doe"@example.com»', '«jane@example.photography»', '[«jane@example.com»](profile)'],
    'See «jane@example.com...».'.replace('...»', '»...'),
    // Near misses
    ...['a@b', 'user@localhost', 'pkg@1.2.3', '@scope/package@2.0.0-rc.1', 'lodash@4.17.21.tgz'],
    ...['icon@2x.png', '@jane_doe on the usual network', 'meet @ 5.30 p.m.'],
    ...['git@github.com:owner/project.git', 'postgres://app:secret@db.example.com:5432/orders'],
    ...['getty@tty1.service', 'image@sha256:9b2c7f0e', '@media screen and (min-width: 40em)'],
    ...['jane at example dot com', '@example.com', 'jane@example.', 'jane@@example', 'a@-example-.com-'],
    ...['xpath: //book[@lang="en.us"]', 'docker run node@20-alpine', '{{user@domain}}', 'speed@100.5 mph'],
  ],
};

const emailHard: Group = {
  type: 'email',
  texts: [
    // Missed: an address literal instead of a domain, and spaces.
    '«jane@[example]»',
    // Taken: what looks like one.
    'from module import handler@decorator.factory',
  ],
};

const ipAddress: Group = {
  type: 'ip_address',
  texts: [
    ...['«192.0.2.1»', '«203.0.113.254»:8080', 'https://user@«198.51.100.7»:8443/', '«192.0.2.0»/24'],
    ...['«127.0.0.1»', '«172.16.254.3»,«192.168.1.1»', 'client=«203.0.113.9»;proto=https'],
    ...['«255.255.255.255»', 'ssh root@«192.0.2.77»', 'X-Forwarded-For: «203.0.113.195», «198.51.100.178»'],
    '２０３.０.１１３.４２'.replace(/^.*$/, '«$&»'),
    ...['«2001:db8::1»', '«2001:0db8:0000:0000:0000:ff00:0042:8329»', '«2001:DB8:0:0:8:800:200C:417A»'],
    ...['«::1»', '[«2001:db8::ff00:42:8329»]:443', '«fe80::1ff:fe23:4567:890a»%eth0', '«::ffff:192.0.2.128»'],
    '«2001:db8:1::/48».'.replace('/48»', '»/48'),
    'addr:«2001:db8::3»',
    'the address is «2001:db8:0:1:1:1:1:1»: reachable',
    'IP地址«198.51.100.61»已记录',
    // Near misses
    ...['1.2.3', 'version 1.2.3.4', 'release 10.4.2.1 is out', 'section 4.3.2.1 of the contract'],
    ...['Mozilla/5.0 Chrome/120.0.0.0 Safari/537.36', '1.2.3.4-beta', '1.2.3.4.5', '256.1.1.1', '192.0.2'],
    ...['01.02.03.04', '1.3.6.1.4.1.311.21.20', '12:34:56', '00:1b:44:11:3a:b7', '02:1b:44:ff:fe:11:3a:b7'],
    ...['a::b', 'arn:aws:iam::123456789012:user/jane', 'urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66'],
    ...['ratio 16:9:4', '::', '2001:db8', '2001:db8:::1', '1:2:3:4:5:6:7:8:9', '12345::1', 'g001:db8::1'],
    ...['1.5, 2.5, 3.5, 4.5', 'dead::beef'],
  ],
};

const ipAddressHard: Group = {
  type: 'ip_address',
  texts: [
    // Taken: four small numbers with dots are an address, unless something says otherwise.
    'upgraded from 9.1.2.3 yesterday',
    // Missed: other notations of the same number.
    '«0xC0000201»',
  ],
};

const named: readonly Group[] = [
  { type: 'ip_address', name: 'appVersion', texts: ['4.12.0.3', '10.0.1.2'] },
  { type: 'ip_address', name: 'client_ip', texts: ['«192.0.2.43»', '«2001:db8::43»', 'unknown'] },
  { type: 'email', name: 'email', texts: ['«jane@example.com»', 'none', 'jane'] },
];

export const addresses: readonly Group[] = [email, emailHard, ipAddress, ipAddressHard, ...named];
