import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError, type SseFrame, SseParser } from '@narthex/sdk';

const bytes = (text: string) => new TextEncoder().encode(text);
const frame = (data: string, event = 'message', id?: string): SseFrame => ({ id, event, data });

const CORPUS: [name: string, text: string | Uint8Array, frames: SseFrame[]][] = [
  ['nothing', '', []],
  ['one frame', 'id: 1\nevent: a\ndata: x\n\n', [frame('x', 'a', '1')]],
  ['CR ends lines', 'id: 1\revent: a\rdata: x\r\r', [frame('x', 'a', '1')]],
  ['CRLF ends lines', 'id: 1\r\nevent: a\r\ndata: x\r\n\r\n', [frame('x', 'a', '1')]],
  [
    'all ends mixed',
    'data: x\r\ndata: y\rdata: z\n\r\ndata: q\n\r',
    [frame('x\ny\nz'), frame('q')],
  ],
  ['CR CR LF is two ends', 'data: x\r\r\ndata: y\n\n', [frame('x'), frame('y')]],
  ['comments are nothing', ': heartbeat\n\n:\ndata: x\n: in between\n\n', [frame('x')]],
  ['data of several lines', 'data: x\ndata:  y\ndata:\ndata:z\n\n', [frame('x\n y\n\nz')]],
  ['data without a colon', 'data\n\n', [frame('')]],
  ['two empty lines of data', 'data\ndata\n\n', [frame('\n')]],
  ['only one space is taken', 'data:  x\n\n', [frame(' x')]],
  ['colons in the value', 'data: a:b: c\n\n', [frame('a:b: c')]],
  ['no data, no frame', 'event: a\nid: 1\n\ndata: x\n\n', [frame('x')]],
  [
    'the event name is forgotten',
    'event: a\ndata: x\n\ndata: y\n\n',
    [frame('x', 'a'), frame('y')],
  ],
  [
    'the own id is forgotten',
    'id: 1\ndata: x\n\ndata: y\n\n',
    [frame('x', 'message', '1'), frame('y')],
  ],
  ['an empty id', 'id\ndata: x\n\n', [frame('x', 'message', '')]],
  ['an id with a zero byte', 'id: 1\0\ndata: x\n\n', [frame('x')]],
  ['unknown fields', 'foo: 1\nbar\ndata: x\n\n', [frame('x')]],
  ['field names are exact', 'Data: x\n data: y\ndata: z\n\n', [frame('z')]],
  ['a byte order mark in front', '\uFEFFdata: x\n\n', [frame('x')]],
  ['only one is skipped', '\uFEFF\uFEFFdata: x\n\ndata: y\n\n', [frame('y')]],
  ['one further on is text', 'data: \uFEFFx\n\n', [frame('\uFEFFx')]],
  ['what the end cuts off is dropped', 'data: x\n\ndata: y\n', [frame('x')]],
  ['all widths of UTF-8', 'data: aé€😀\n\n', [frame('aé€😀')]],
  [
    'bytes that are no UTF-8',
    Uint8Array.of(...bytes('data: '), 0xff, ...bytes('x\n\n')),
    [frame('\uFFFDx')],
  ],
  [
    'line ends of other alphabets are text',
    'data: a\u2028b\u0085c\n\n',
    [frame('a\u2028b\u0085c')],
  ],
];

function parse(...pieces: Uint8Array[]): SseFrame[] {
  const parser = new SseParser();
  return pieces.flatMap((piece) => parser.push(piece));
}

for (const [name, source, frames] of CORPUS) {
  const whole = typeof source === 'string' ? bytes(source) : source;

  test(`sse: ${name}`, () => {
    assert.deepEqual(parse(whole), frames);
  });

  test(`sse: ${name}, cut anywhere`, () => {
    for (let at = 0; at <= whole.length; at += 1) {
      assert.deepEqual(parse(whole.subarray(0, at), whole.subarray(at)), frames, `cut at ${at}`);
    }
    assert.deepEqual(
      parse(...Array.from(whole, (byte) => Uint8Array.of(byte))),
      frames,
      'byte by byte',
    );
  });
}

test('sse: the last id and the retry time are kept over frames', () => {
  const parser = new SseParser();
  parser.push(bytes('id: 7\n\ndata: x\n\nretry: 250\nretry: soon\n\n'));
  assert.equal(parser.lastEventId, '7');
  assert.equal(parser.retryMs, 250);
});

test('sse: a frame over the limit is an error, in one line or many, ended or not', () => {
  const tooLarge = (error: unknown) =>
    error instanceof ApiError && error.code === 'frame_too_large';
  for (const text of [
    `data: ${'x'.repeat(101)}`,
    'data: xxxxxxxxx\n'.repeat(11),
    `event: ${'x'.repeat(120)}\n`,
  ]) {
    const parser = new SseParser({ frameCharsMax: 100 });
    assert.throws(() => parser.push(bytes(text)), tooLarge, text.slice(0, 20));
  }
  const parser = new SseParser({ frameCharsMax: 100 });
  const many = parser.push(bytes(`data: ${'x'.repeat(80)}\n\n`.repeat(50)));
  assert.equal(many.length, 50, 'the limit is of one frame, not of a stream');
});
