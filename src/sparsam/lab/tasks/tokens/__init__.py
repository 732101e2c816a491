"""The recall tests of today: tasks over tokens beside attention and linear recurrences."""
