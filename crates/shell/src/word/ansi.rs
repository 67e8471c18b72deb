//! `$'…'`: escapes as C has them.

use super::{Kind, Resolver, Value, Why};
use crate::script::UNKNOWN;

impl Resolver<'_> {
    /// Behind `$'`.
    pub(super) fn ansi(&mut self) -> Result<(), Why> {
        let mut is_over = false;
        loop {
            let c = self.next().ok_or("a quote is not closed")?;
            let decoded = match c {
                '\'' => return Ok(()),
                '\\' => self.escape()?,
                c => Some(c),
            };
            // A null ends the text, whatever follows.
            is_over |= decoded == Some('\0');
            match decoded {
                _ if is_over => {}
                Some(c) => self.push(c, Kind::Quoted),
                None => {
                    let value = Value { may_split: false, starts_safely: true, is_number: false };
                    self.push(UNKNOWN, Kind::Unknown(value));
                }
            }
        }
    }

    /// Behind a backslash in `$'…'`; `None` for a byte that is no character by itself.
    fn escape(&mut self) -> Result<Option<char>, Why> {
        Ok(Some(match self.next().ok_or("a quote is not closed")? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' | 'E' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            c @ ('\\' | '\'' | '"' | '?') => c,
            'x' => return Ok(self.byte(16, 2).or(Some('x'))),
            'u' => return Ok(self.digits(16, 4).and_then(char::from_u32)),
            'U' => return Ok(self.digits(16, 8).and_then(char::from_u32)),
            '0'..='7' => {
                self.at -= 1;
                return Ok(self.byte(8, 3));
            }
            'c' => return Err("it uses a control character"),
            other => {
                self.push('\\', Kind::Quoted);
                other
            }
        }))
    }

    fn byte(&mut self, radix: u32, count: usize) -> Option<char> {
        let value = self.digits(radix, count)? & 0xff;
        if value < 0x80 {
            return char::from_u32(value);
        }
        self.doubt.get_or_insert("it spells bytes that are no text");
        None
    }

    fn digits(&mut self, radix: u32, count: usize) -> Option<u32> {
        let mut value = None;
        for _ in 0..count {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else { break };
            let _digit = self.next();
            value = Some(value.unwrap_or(0_u32).checked_mul(radix)?.checked_add(digit)?);
        }
        value
    }
}
