//! The requests as scripts read them: MessagePack, which every server unpacks by itself.
//!
//! Only what a request is made of: texts, whole numbers, truth values, one after the other; `false` stands for nothing.
//! Not as an array, which a script would have to grow. All in the forms in which servers pack, since some is stored as it is.

use crate::slot::Token;

/// A request that is being written.
#[derive(Debug, Default)]
pub(super) struct Pack(Vec<u8>);

impl Pack {
    /// A request of no values yet.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// The same without its values, for another request.
    pub(super) fn emptied(mut self) -> Self {
        self.0.clear();
        self
    }

    pub(super) fn text(self, text: impl AsRef<[u8]>) -> Self {
        self.joined([text.as_ref(), b""])
    }

    /// One text of two.
    pub(super) fn joined(mut self, parts: [&[u8]; 2]) -> Self {
        let length = parts[0].len() + parts[1].len();
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(length @ 0..32), _) => self.0.push(0xa0 | length),
            (Ok(length), _) => self.0.extend([0xd9, length]),
            (_, Ok(length)) => {
                self.0.push(0xda);
                self.0.extend(length.to_be_bytes());
            }
            _ => {
                self.0.push(0xdb);
                self.0.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
            }
        }
        self.0.extend_from_slice(parts[0]);
        self.0.extend_from_slice(parts[1]);
        self
    }

    /// A token in a form that all locales sort alike.
    pub(super) fn token(self, token: Token) -> Self {
        self.text(token.hex())
    }

    pub(super) fn opt_text(self, text: Option<impl AsRef<[u8]>>) -> Self {
        match text {
            Some(text) => self.text(text),
            None => self.flag(false),
        }
    }

    pub(super) fn int(mut self, number: i64) -> Self {
        match (u8::try_from(number), u16::try_from(number), u32::try_from(number)) {
            (Ok(number @ 0..128), ..) => self.0.push(number),
            (Ok(number), ..) => self.0.extend([0xcc, number]),
            (_, Ok(number), _) => {
                self.0.push(0xcd);
                self.0.extend(number.to_be_bytes());
            }
            (.., Ok(number)) => {
                self.0.push(0xce);
                self.0.extend(number.to_be_bytes());
            }
            _ => {
                self.0.push(if number < 0 { 0xd3 } else { 0xcf });
                self.0.extend(number.to_be_bytes());
            }
        }
        self
    }

    pub(super) fn opt_int(self, number: Option<i64>) -> Self {
        match number {
            Some(number) => self.int(number),
            None => self.flag(false),
        }
    }

    /// A text of values, packed in their turn.
    pub(super) fn packed(mut self, values: impl FnOnce(Self) -> Self) -> Self {
        self.0.push(0xdb);
        let start = self.0.len() + 4;
        self.0.extend([0; 4]);
        self = values(self);
        let length = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        if let Some(place) = self.0.get_mut(start - 4..start) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        self
    }

    pub(super) fn flag(mut self, flag: bool) -> Self {
        self.0.push(if flag { 0xc3 } else { 0xc2 });
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_in_their_shortest_forms() {
        let numbers: [(i64, &[u8]); 9] = [
            (0, b"\x00"),
            (127, b"\x7f"),
            (128, b"\xcc\x80"),
            (255, b"\xcc\xff"),
            (256, b"\xcd\x01\x00"),
            (65_536, b"\xce\x00\x01\x00\x00"),
            (1 << 32, b"\xcf\x00\x00\x00\x01\x00\x00\x00\x00"),
            (i64::MAX, b"\xcf\x7f\xff\xff\xff\xff\xff\xff\xff"),
            (-1, b"\xd3\xff\xff\xff\xff\xff\xff\xff\xff"),
        ];
        for (number, bytes) in numbers {
            assert_eq!(Pack::new().int(number).bytes(), bytes, "{number}");
        }
        let texts: [(usize, &[u8]); 6] = [
            (0, b"\xa0"),
            (31, b"\xbf"),
            (32, b"\xd9\x20"),
            (255, b"\xd9\xff"),
            (256, b"\xda\x01\x00"),
            (65_536, b"\xdb\x00\x01\x00\x00"),
        ];
        for (length, head) in texts {
            let text = "x".repeat(length);
            assert_eq!(Pack::new().text(&text).bytes(), [head, text.as_bytes()].concat(), "{length}");
        }
        let packed = Pack::new().flag(true).packed(|values| values.int(1).text("a")).flag(false);
        assert_eq!(packed.bytes(), b"\xc3\xdb\x00\x00\x00\x03\x01\xa1a\xc2");
    }
}
