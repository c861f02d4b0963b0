import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { channelsLimits } from '../../control-plane/channels/limits.ts';
import { type Mail, type MailerOptions, smtpMailer } from '../../control-plane/channels/mailer.ts';
import { Wrong } from '../../shared/runtime/setting-values.ts';
import { smtpUrl } from '../../shared/runtime/smtp-url.ts';
import { testCa } from '../support/base/certificates.ts';
import { listening } from '../support/base/listening.ts';
import { until } from '../support/base/until.ts';
import { startMailServer, startOddMailServer } from '../support/peers/mail-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'mailer-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const ca = testCa(folder);
const trusted = readFileSync(ca.file, 'utf8');
const certificate = (...names: string[]) => {
  const { cert, key } = ca.issue(...names);
  return { cert: readFileSync(cert), key: readFileSync(key) };
};

const mail: Mail = {
  ...{ to: 'jane@example.com', messageId: 'm.1', threadId: null, subject: 'Approval needed' },
  ...{ text: 'text', html: '<p>html</p>' },
};
const server = (port: number, more: Partial<MailerOptions['server']> = {}): MailerOptions['server'] => ({
  ...{ host: '127.0.0.1', port, user: null, password: null, tls: 'none' },
  ...more,
});
const never = new AbortController().signal;
const send = (options: Partial<MailerOptions> & Pick<MailerOptions, 'server'>, more: Partial<Mail> = {}) =>
  smtpMailer({ from: 'approvals@example.com', timeoutMs: 60_000, ...options }).send(
    { ...mail, ...more },
    never,
  );

describe('a mail', () => {
  it('arrives with its thread, for no program to answer', async () => {
    const at = await startMailServer();
    expect(await send({ server: server(at.port) })).toEqual({ isSent: true });
    expect(await send({ server: server(at.port) }, { messageId: 'm.2', threadId: 'm.1' })).toEqual({
      isSent: true,
    });
    const [first, second] = at.mails;
    expect(first).toMatchObject({ from: 'approvals@example.com', to: ['jane@example.com'], isSecure: false });
    expect(first?.source).toMatch(/^Message-ID: <m\.1@example\.com>\r$/m);
    expect(first?.source).toMatch(/^Auto-Submitted: auto-generated\r$/m);
    expect(first?.source).toMatch(/^From: "agent-trust" <approvals@example\.com>\r$/m);
    expect(second?.source).toMatch(/^In-Reply-To: <m\.1@example\.com>\r$/m);
    expect(second?.source).toMatch(/^References: <m\.1@example\.com>\r$/m);
    await at.close();
  });

  it('gets no header and no receiver from its subject', async () => {
    const at = await startMailServer();
    await send({ server: server(at.port) }, { subject: 'a\r\nBcc: evil@example.com\r\n\r\nbody' });
    const [got] = at.mails;
    expect(got?.to).toEqual(['jane@example.com']);
    expect(got?.source).not.toMatch(/^Bcc:/m);
    await at.close();
  });

  it('goes over TLS from the start, or by STARTTLS, with a login', async () => {
    const keys = certificate('IP:127.0.0.1');
    const implicit = await startMailServer({ secure: true, ...keys });
    const starts = await startMailServer({ disabledCommands: [], ...keys });
    const login = { user: 'robot', password: 'the right one' };
    for (const [at, tls] of [
      [implicit, 'implicit'],
      [starts, 'starttls'],
    ] as const) {
      expect(await send({ server: server(at.port, { ...login, tls }), ca: trusted })).toEqual({
        isSent: true,
      });
      expect(at.mails).toMatchObject([{ isSecure: true, user: 'robot' }]);
      await at.close();
    }
  });
});

describe('a fault has a name', () => {
  it('login_refused, without the password', async () => {
    const at = await startMailServer();
    const login = { user: 'robot', password: 'the wrong one' };
    const outcome = await send({ server: server(at.port, login) });
    expect(outcome).toMatchObject({ isSent: false, code: 'login_refused', isFinal: false });
    expect(JSON.stringify(outcome)).not.toContain('wrong one');
    expect(at.mails).toEqual([]);
    await at.close();
  });

  it('tls_missing: nothing is sent in plain text, neither login nor mail', async () => {
    const at = await startOddMailServer((line) => {
      if (line.startsWith('EHLO')) return '250-here\r\n250 AUTH PLAIN LOGIN';
      return line === 'STARTTLS' ? '502 5.5.1 not implemented' : '250 ok';
    });
    const login = { user: 'robot', password: 'secret', tls: 'starttls' } as const;
    expect(await send({ server: server(at.port, login) })).toMatchObject({
      ...{ isSent: false, code: 'tls_missing', detail: '502 5.5.1 not implemented', isFinal: false },
    });
    expect(at.lines.filter((line) => !/^(?:EHLO|STARTTLS|QUIT)/.test(line))).toEqual([]);
    await at.close();
  });

  it('tls_failed: of a certificate of an unknown authority, and of another name', async () => {
    const other = await startMailServer({ secure: true, ...certificate('DNS:other.example') });
    const own = await startMailServer({ secure: true, ...certificate('IP:127.0.0.1') });
    const tls = 'implicit' as const;
    expect(await send({ server: server(own.port, { tls }) })).toMatchObject({ code: 'tls_failed' });
    expect(await send({ server: server(other.port, { tls }), ca: trusted })).toMatchObject({
      code: 'tls_failed',
      detail: 'ERR_TLS_CERT_ALTNAME_INVALID',
    });
    // Control: the same server, trusted and by its name.
    expect(await send({ server: server(own.port, { tls }), ca: trusted })).toEqual({ isSent: true });
    await own.close();
    await other.close();
  });

  it.each([
    ['RCPT TO', '550 5.1.1 No such user here', 'recipient_refused', true],
    ['RCPT TO', '451 4.7.1 Greylisted, try again', 'recipient_refused', false],
    ['MAIL FROM', '553 5.7.1 Not your address', 'sender_refused', true],
    ['DATA', '554 5.7.1 Looks like spam', 'message_refused', true],
    ['.', '552 5.3.4 Too big', 'message_refused', true],
  ] as const)('%s answered with %s: %s', async (command, said, code, isFinal) => {
    const at = await startOddMailServer((line) => {
      if (line.startsWith(command) && (command !== '.' || line === '.')) return said;
      if (line.startsWith('EHLO')) return '250 here';
      if (line === 'DATA') return '354 go on';
      return /^(?:MAIL|RCPT|RSET)/.test(line) || line === '.' ? '250 ok' : '';
    });
    expect(await send({ server: server(at.port) })).toEqual({ isSent: false, code, detail: said, isFinal });
    await at.close();
  });

  it('closed: in DATA, and before the greeting', async () => {
    const inData = await startOddMailServer((line) => {
      if (line.startsWith('EHLO')) return '250 here';
      if (line === 'DATA') return '354 go on';
      if (/^(?:MAIL|RCPT)/.test(line)) return '250 ok';
      return line.startsWith('Message-ID') ? null : '';
    });
    expect(await send({ server: server(inData.port) })).toEqual({
      ...{ isSent: false, code: 'closed', isFinal: false },
      detail: 'the server closed the connection while sending',
    });
    const atOnce = await startOddMailServer(() => null, null);
    expect(await send({ server: server(atOnce.port) })).toMatchObject({ code: 'closed' });
    for (const each of [inData, atOnce]) await each.close();
  });

  it('unreachable: nothing listens there', async () => {
    const at = await startMailServer();
    await at.close();
    expect(await send({ server: server(at.port) })).toMatchObject({
      code: 'unreachable',
      detail: 'ECONNREFUSED',
    });
  });

  it('timeout: of one that says nothing', async () => {
    const silent = await startOddMailServer(() => '', '');
    expect(await send({ server: server(silent.port), timeoutMs: 200 })).toMatchObject({
      ...{ isSent: false, code: 'timeout', detail: 'no answer within 200 ms', isFinal: false },
    });
    await silent.close();
  });

  it('timeout: of one that never ends its greeting', async () => {
    const at = createServer((socket) => {
      const timer = setInterval(() => socket.write('220-wait\r\n'), 20);
      socket.on('error', () => undefined);
      socket.on('close', () => clearInterval(timer));
    });
    const { port, close } = await listening(at);
    expect(await send({ server: server(port), timeoutMs: 300 })).toMatchObject({ code: 'timeout' });
    await close();
  });
});

it('keeps few connections open at once; what waits too long has failed', async () => {
  const silent = await startOddMailServer(() => '', '');
  const options = { server: server(silent.port), from: 'a@example.com', timeoutMs: 3_000 };
  const mailer = smtpMailer(options);
  const signal = () => new AbortController().signal;
  const many = Array.from({ length: channelsLimits.mailConnectionsMax + 5 }, () =>
    mailer.send(mail, signal()),
  );
  await until(() => silent.connections() >= channelsLimits.mailConnectionsMax, { what: 'as many as may be' });
  // Control: one of another mailer, begun after all of them, is the next.
  const control = smtpMailer(options).send(mail, signal());
  await until(() => silent.connections() > channelsLimits.mailConnectionsMax, { what: 'the control' });
  expect(silent.connections()).toBe(channelsLimits.mailConnectionsMax + 1);
  for (const outcome of await Promise.all([...many, control]))
    expect(outcome).toMatchObject({ isSent: false, code: 'timeout' });
  // And the room is free again.
  const before = silent.connections();
  const stop = new AbortController();
  const late = mailer.send(mail, stop.signal);
  await until(() => silent.connections() > before, { what: 'one more' });
  stop.abort();
  await late;
  await silent.close();
});

it('ends when its program stops', async () => {
  const silent = await startOddMailServer(() => '', '');
  const stop = new AbortController();
  const mailer = smtpMailer({ server: server(silent.port), from: 'a@example.com' });
  const running = mailer.send(mail, stop.signal);
  await until(() => silent.connections() === 1, { what: 'a connection' });
  stop.abort();
  expect(await running).toMatchObject({ code: 'timeout', detail: 'this program stops' });
  await silent.close();
});

describe('SMTP_URL', () => {
  it.each([
    ['smtps://u%40x:p%3Aw@Mail.Example.com', ['mail.example.com', 465, 'u@x', 'p:w', 'implicit']],
    ['smtp://mail.example.com', ['mail.example.com', 587, null, null, 'starttls']],
    ['smtp://localhost:25', ['localhost', 25, null, null, 'none']],
    ['smtp://[::1]:25', ['::1', 25, null, null, 'none']],
    ['smtp://localhost.evil.example', ['localhost.evil.example', 587, null, null, 'starttls']],
    ['smtp://10.0.0.1', ['10.0.0.1', 587, null, null, 'starttls']],
  ])('%s', (given, [host, port, user, password, tls]) => {
    expect(smtpUrl(given)).toEqual({ host, port, user, password, tls });
  });

  it.each([
    'mail.example.com',
    'smtp://mail.example.com/path',
    'smtp://hunter2:%zz@mail.example.com',
    'smtp://hunter2@mail.example.com',
  ])('is refused: %s, quoting nothing', (given) => {
    const read = smtpUrl(given);
    expect(read).toBeInstanceOf(Wrong);
    expect((read as Wrong).sentence).not.toContain('hunter2');
  });
});
