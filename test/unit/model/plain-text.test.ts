import { describe, expect, it } from 'vitest';
import { printerOf } from '../../../cli/base/print.ts';
import { mailText } from '../../../control-plane/channels/mail-text.ts';
import { type NoticeFacts, noticeOf } from '../../../control-plane/channels/notice.ts';
import { slackBody } from '../../../control-plane/channels/slack-text.ts';
import { visible } from '../../../shared/model/plain-text.ts';

/** An agent that looks like another one: a zero-width space, a tag, a soft hyphen, a filler. */
const disguises = [
  'pay\u200bpal',
  'pay\u{e0070}pal',
  'pay\u00adpal',
  'pay\u3164pal',
  'pay\u200dpal',
  'pay\ufe0fpal',
  'pay\u2060pal',
];
const raw = /\u00ad|\u200b|\u200d|\u3164|\ufe0f|\u{e0070}/u;

describe('text of others', () => {
  it('shows what has no width as its code, and emoji as they are', () => {
    expect(disguises.map(visible)).toEqual([
      ...['pay\\u200bpal', 'pay\\udb40\\udc70pal', 'pay\\u00adpal', 'pay\\u3164pal'],
      ...['pay\\u200dpal', 'pay\\ufe0fpal', 'pay\\u2060pal'],
    ]);
    for (const text of ['\u{1f469}\u200d\u{1f4bb}', '\u2764\ufe0f', '\u{1f44d}\u{1f3fd}', 'é\nñ'])
      expect(visible(text)).toBe(text);
    for (const text of disguises) expect(JSON.parse(visible(JSON.stringify(text)))).toBe(text);
  });

  it.each(disguises)('is plain in tables, YAML, Slack and mail: %j', (name) => {
    const shown: string[] = [];
    const sink = { write: (text: string) => void shown.push(text), isTTY: true };
    const print = printerOf({ output: sink, errors: sink, env: {}, isJson: false });
    print.rows({ name: 'name' }, [{ name }]);
    print.item({ name });
    print.say(name);
    expect(shown.join('')).not.toMatch(raw);
    const approval = {
      approvalId: 'appr_1',
      permissionKey: 'a:b',
      gateId: 'gate_1',
      agentId: name,
      amountMicroUsd: null,
      expiresAtMs: 0,
      resolvedBy: null,
      note: null,
      requester: null,
      user: name,
      display: { title: name, lines: [{ label: name, value: name }] },
    };
    const facts = {
      event: 'approval.requested',
      approval,
      spokenFor: null,
      gateName: name,
      agentName: name,
      resolverName: null,
      approvalUrl: 'https://a.example/',
      listUrl: null,
    };
    const notice = noticeOf(facts as unknown as NoticeFacts);
    const { subject, text, html } = mailText(notice);
    expect(`${slackBody(notice)}${subject}`).not.toMatch(raw);
    expect(`${text}${html}`).not.toMatch(raw);
  });
});
