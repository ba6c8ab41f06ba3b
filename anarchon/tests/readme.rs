//! The programs of the README are those that are compiled as examples.

#[test]
fn its_programs_are_the_examples() {
    let readme = include_str!("../README.md");
    for example in [include_str!("../examples/whole_program.rs"), include_str!("../examples/service.rs")] {
        let program = example.split_once("\n\n").map_or(example, |(_heading, program)| program);
        assert!(readme.contains(&format!("```rust\n{program}```")), "not in the README as it is: {program}");
    }
    assert_eq!(readme.matches("```rust").count(), 2, "a program that is not compiled");
}
